/**
 * The runtime adapter for Node.
 *
 * @module
 */

import type { Server, ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { HttpServer, RequestHandler, Runtime, ServeOptions } from "../src/runtime.ts";
import { processRuntime } from "./_process.ts";

/** The runtime adapter for Node. */
export const nodeRuntime: Runtime = processRuntime({ name: "node", serve, missingServePackages });

/** Typed as string, so that type checks and JSR accept that the optional package is missing. */
const MODULE: string = "@hono/node-server";

interface NodeServerModule {
  createAdaptorServer(options: {
    readonly fetch: RequestHandler;
    readonly overrideGlobalObjects: boolean;
  }): Server;
}

async function serve(handler: RequestHandler, options: ServeOptions): Promise<HttpServer> {
  const { createAdaptorServer } = await loadNodeServer();
  const server = createAdaptorServer({ fetch: handler, overrideGlobalObjects: false });
  const connections = new Connections(server);
  // HTTP/1.0 requests may lack a Host header, but the URL of a Request needs a host.
  server.prependListener("request", (request) => {
    request.headers.host ||= `localhost:${request.socket.localPort}`;
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port, options.hostname, () => {
      server.off("error", reject);
      resolve();
    });
  });
  const { address, port } = server.address() as AddressInfo;
  return { hostname: address, port, close: ({ signal }) => connections.close(signal) };
}

/**
 * Tracks the connections of a server and their unanswered requests. Node's `close` waits for
 * connections without a complete request, so those are closed here.
 */
class Connections {
  readonly #server: Server;
  readonly #pending = new Map<Socket, Set<ServerResponse>>();
  #closing = false;

  constructor(server: Server) {
    this.#server = server;
    server.on("connection", (socket) => {
      this.#pending.set(socket, new Set());
      socket.once("close", () => this.#pending.delete(socket));
    });
    // Runs before the handler, because `connection: close` must be set before the headers are sent.
    server.prependListener("request", ({ socket }, response) => this.#add(socket, response));
  }

  async close(signal: AbortSignal): Promise<void> {
    this.#closing = true;
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const [socket, responses] of this.#pending) {
      if (responses.size === 0) socket.destroy();
      for (const response of responses) announceEnd(response);
    }
    const cutOff = () => this.#server.closeAllConnections();
    if (signal.aborted) cutOff();
    signal.addEventListener("abort", cutOff, { once: true });
    await closed;
    signal.removeEventListener("abort", cutOff);
  }

  #add(socket: Socket, response: ServerResponse): void {
    const responses = this.#pending.get(socket);
    responses?.add(response);
    if (this.#closing) announceEnd(response);
    response.once("close", () => {
      responses?.delete(response);
      if (this.#closing && responses?.size === 0) socket.end();
    });
  }
}

function announceEnd(response: ServerResponse): void {
  if (!response.headersSent) response.setHeader("connection", "close");
}

async function missingServePackages(): Promise<readonly string[]> {
  return await loadNodeServer().then(() => [], () => [MODULE]);
}

async function loadNodeServer(): Promise<NodeServerModule> {
  try {
    return await import(MODULE) as NodeServerModule;
  } catch (error) {
    throw new Error(
      "Cannot serve HTTP on Node: the package @hono/node-server is missing. Install it with " +
        "npm install @hono/node-server",
      { cause: error },
    );
  }
}
