import type { Server, ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { HttpServer, RequestHandler, ServeOptions } from "../src/runtime.ts";

/** Not a literal: an optional peer need not be there when imports are checked. */
const MODULE: string = "@hono/node-server";

interface NodeServerModule {
  createAdaptorServer(options: {
    readonly fetch: RequestHandler;
    readonly overrideGlobalObjects: boolean;
  }): Server;
}

/** Serves with Node's own server. */
export async function serve(handler: RequestHandler, options: ServeOptions): Promise<HttpServer> {
  const { createAdaptorServer } = await loadNodeServer();
  const server = createAdaptorServer({ fetch: handler, overrideGlobalObjects: false });
  const connections = new Connections(server);
  // HTTP/1.0 needs no Host, but the address of a Request does; without one it is refused.
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
 * The connections of a server, and what is asked on them. Node's `close` waits for connections that never
 * ask anything, or half of it; so it is known here which ones those are.
 */
class Connections {
  readonly #server: Server;
  readonly #asked = new Map<Socket, Set<ServerResponse>>();
  #closing = false;

  constructor(server: Server) {
    this.#server = server;
    server.on("connection", (socket) => {
      this.#asked.set(socket, new Set());
      socket.once("close", () => this.#asked.delete(socket));
    });
    // Before the handler: the header that announces the end must be set before those of the answer.
    server.prependListener("request", ({ socket }, response) => this.#add(socket, response));
  }

  async close(signal: AbortSignal): Promise<void> {
    this.#closing = true;
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const [socket, responses] of this.#asked) {
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
    const responses = this.#asked.get(socket);
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

/** The package, where it cannot be loaded. */
export async function missingServePackages(): Promise<readonly string[]> {
  return await loadNodeServer().then(() => [], () => [MODULE]);
}

async function loadNodeServer(): Promise<NodeServerModule> {
  try {
    return await import(MODULE) as NodeServerModule;
  } catch (error) {
    throw new Error(
      "Serving HTTP on Node needs the package @hono/node-server, which cannot be loaded: install it " +
        "(npm install @hono/node-server)",
      { cause: error },
    );
  }
}
