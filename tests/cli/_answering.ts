import { createServer } from "node:http";
import { once } from "node:events";

/** A server that answers `/status` with this, if it is not undefined, and all else with `others`. */
export async function answering(
  status: unknown,
  others: number = 200,
): Promise<{ readonly url: string } & AsyncDisposable> {
  const server = createServer(({ url }, response) => {
    response.setHeader("connection", "close");
    const asked = url === "/status";
    response.statusCode = asked ? (status === undefined ? 404 : 200) : others;
    response.end(asked ? JSON.stringify(status ?? {}) : "");
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
