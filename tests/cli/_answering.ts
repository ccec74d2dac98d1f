import { createServer } from "node:http";
import { once } from "node:events";

/** A server that answers `/status` with this, and everything with 200; with undefined, nothing is there. */
export async function answering(
  status: unknown,
): Promise<{ readonly url: string } & AsyncDisposable> {
  const server = createServer(({ url }, response) => {
    response.setHeader("connection", "close");
    if (status === undefined) response.statusCode = 404;
    response.end(url === "/status" ? JSON.stringify(status ?? {}) : "");
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { readonly port: number };
  return {
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      server.close();
      await once(server, "close");
    },
  };
}
