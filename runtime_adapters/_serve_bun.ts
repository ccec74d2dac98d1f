import type { HttpServer, RequestHandler, ServeOptions } from "../src/runtime.ts";

/** The few members that are needed, so that the other runtimes need no types of Bun's. */
interface BunNamespace {
  serve(options: {
    readonly hostname: string;
    readonly port: number;
    /** In seconds; 0 lets an answer take its time. */
    readonly idleTimeout: number;
    readonly fetch: (request: Request, server: BunServer) => Response | Promise<Response>;
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
export function serve(handler: RequestHandler, options: ServeOptions): Promise<HttpServer> {
  const { Bun } = globalThis as unknown as { readonly Bun: BunNamespace };
  // The second argument is for handlers that know Bun.
  const answer = handler as (request: Request, server: BunServer) => ReturnType<RequestHandler>;
  const fetch = (request: Request, server: BunServer) => {
    if (request.url.startsWith("/")) addOrigin(request, server.port);
    return answer(request, server);
  };
  return new Promise((resolve) => {
    const server = Bun.serve({ ...options, idleTimeout: 0, fetch });
    const { hostname, port } = server;
    resolve({ hostname, port, close: ({ signal }) => close(server, signal) });
  });
}

/**
 * Completes the address of a request of HTTP/1.0 that has no Host: to Bun it is a mere path, which is no
 * URL. It stays the same request, because Bun tells only of its own ones when they are answered.
 */
function addOrigin(request: Request, port: number): void {
  Object.defineProperty(request, "url", { value: `http://localhost:${port}${request.url}` });
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
