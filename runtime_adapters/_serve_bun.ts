import type { HttpServer, RequestHandler, ServeOptions } from "../src/runtime.ts";

/** The few members that are needed, so that the other runtimes need no types of Bun's. */
interface BunNamespace {
  serve(options: {
    readonly hostname: string;
    readonly port: number;
    /** In seconds; 0 lets an answer take its time. */
    readonly idleTimeout: number;
    readonly fetch: RequestHandler;
  }): BunServer;
}

interface BunServer {
  readonly hostname: string;
  readonly port: number;
  /** Requests without a complete answer. */
  readonly pendingRequests: number;
  stop(closeActiveConnections: boolean): Promise<void>;
}

/** How often it is looked whether everything was answered. */
const LOOK_MS = 10;

/** Serves with Bun's own server. */
export function serve(fetch: RequestHandler, options: ServeOptions): Promise<HttpServer> {
  const { Bun } = globalThis as unknown as { readonly Bun: BunNamespace };
  return new Promise((resolve) => {
    const server = Bun.serve({ ...options, idleTimeout: 0, fetch });
    const { hostname, port } = server;
    resolve({ hostname, port, close: ({ signal }) => close(server, signal) });
  });
}

/** Bun waits for connections that have sent half a request: once all is answered they are cut off. */
async function close(server: BunServer, signal: AbortSignal): Promise<void> {
  const stopped = server.stop(false);
  const answered = new Promise<void>((resolve) => {
    const timer = setInterval(() => {
      if (server.pendingRequests > 0 && !signal.aborted) return;
      clearInterval(timer);
      resolve();
    }, LOOK_MS);
    stopped.then(() => {
      clearInterval(timer);
      resolve();
    });
  });
  await answered;
  await server.stop(true);
}
