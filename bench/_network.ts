// A network between the contenders and their server: it delays every piece of data.

import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import type { BenchServer } from "./_servers.ts";

/** Puts a TCP proxy in front of a server that delays data by `ms` in each direction. */
export async function behindNetwork(server: BenchServer, ms: number): Promise<BenchServer> {
  const target = new URL(server.url);
  const sockets = new Set<Socket>();
  const proxy = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname);
    for (const [from, to] of [[client, upstream], [upstream, client]] as const) {
      sockets.add(from);
      from.setNoDelay(true);
      // Timers of the same duration fire in the order in which they were set.
      from.on("data", (data) => setTimeout(() => to.write(data), ms));
      from.on("error", () => to.destroy());
      from.on("close", () => {
        sockets.delete(from);
        setTimeout(() => to.destroy(), ms);
      });
    }
  });
  proxy.listen(0, target.hostname);
  await once(proxy, "listening");
  const url = new URL(target);
  url.port = `${(proxy.address() as { readonly port: number }).port}`;
  return {
    ...server,
    url: url.href,
    async [Symbol.asyncDispose]() {
      proxy.close();
      for (const socket of sockets) socket.destroy();
      await server[Symbol.asyncDispose]();
    },
  };
}
