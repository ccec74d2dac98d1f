import type { HttpServer, RequestHandler, ServeOptions } from "../src/runtime.ts";

/** The few members that are needed, so that the other runtimes need no types of Deno's. */
interface DenoNamespace {
  serve(
    options: ServeOptions & { readonly onListen: () => void },
    handler: RequestHandler,
  ): DenoServer;
}

interface DenoServer {
  readonly addr: { readonly hostname: string; readonly port: number };
  shutdown(): Promise<void>;
}

/** Serves with Deno's own server. */
export function serve(handler: RequestHandler, options: ServeOptions): Promise<HttpServer> {
  const { Deno } = globalThis as unknown as { readonly Deno: DenoNamespace };
  return new Promise((resolve) => {
    const server = Deno.serve({ ...options, onListen() {} }, handler);
    const { hostname, port } = server.addr;
    resolve({ hostname, port, close: ({ signal }) => close(server, signal) });
  });
}

/** Nothing can cut connections off here: what is left then ends with the process. */
async function close(server: DenoServer, signal: AbortSignal): Promise<void> {
  let giveUp: () => void = () => {};
  const givenUp = new Promise<void>((resolve) => giveUp = resolve);
  if (signal.aborted) giveUp();
  signal.addEventListener("abort", giveUp, { once: true });
  await Promise.race([server.shutdown(), givenUp]);
  signal.removeEventListener("abort", giveUp);
}
