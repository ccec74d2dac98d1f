/**
 * The runtime adapter for Bun, on the `process` that it shares with Node.
 *
 * @module
 */

import type { HttpServer, RequestHandler, Runtime, ServeOptions } from "../src/runtime.ts";
import { processRuntime } from "./_process.ts";

/** The runtime adapter for Bun. */
export const bunRuntime: Runtime = processRuntime({ name: "bun", serve });

/** The members of `Bun` that this file uses. Bun's own types are not installed. */
interface BunNamespace {
  serve(options: {
    readonly hostname: string;
    readonly port: number;
    /** In seconds; 0 for no limit. */
    readonly idleTimeout: number;
    readonly fetch: (request: Request, server: BunServer) => Response | Promise<Response>;
  }): BunServer;
}

interface BunServer {
  readonly hostname: string;
  readonly port: number;
  /** The number of requests without a complete answer. */
  readonly pendingRequests: number;
  stop(closeActiveConnections: boolean): Promise<void>;
}

const POLL_MS = 10;

function serve(handler: RequestHandler, options: ServeOptions): Promise<HttpServer> {
  const { Bun } = globalThis as unknown as { readonly Bun: BunNamespace };
  // The second argument is for handlers that use Bun's API.
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
 * Completes the URL of an HTTP/1.0 request without a Host header, which Bun leaves a path. It changes
 * the request in place, because Bun counts only its own objects as pending.
 */
function addOrigin(request: Request, port: number): void {
  Object.defineProperty(request, "url", { value: `http://localhost:${port}${request.url}` });
}

/** Closes the server. Bun would wait for connections with half a request, so they are cut off. */
async function close(server: BunServer, signal: AbortSignal): Promise<void> {
  const stopped = server.stop(false);
  const answered = new Promise<void>((resolve) => {
    const timer = setInterval(() => {
      if (server.pendingRequests > 0 && !signal.aborted) return;
      clearInterval(timer);
      resolve();
    }, POLL_MS);
    stopped.then(() => {
      clearInterval(timer);
      resolve();
    });
  });
  await answered;
  await server.stop(true);
}
