/**
 * The runtime adapter for Node.
 *
 * @module
 */

import { Buffer } from "node:buffer";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type {
  HttpServer,
  PlainResponse,
  RequestHandler,
  Runtime,
  ServeOptions,
} from "../src/runtime.ts";
import { processRuntime } from "./_process.ts";

/** The runtime adapter for Node. */
export const nodeRuntime: Runtime = processRuntime({ name: "node", serve, missingServePackages });

/** Typed as string, so that type checks and JSR accept that the optional package is missing. */
const MODULE: string = "@hono/node-server";

type Listener = (request: IncomingMessage, response: ServerResponse) => void;

interface NodeServerModule {
  createAdaptorServer(options: {
    readonly fetch: RequestHandler;
    readonly overrideGlobalObjects: boolean;
  }): Server;
}

async function serve(handler: RequestHandler, options: ServeOptions): Promise<HttpServer> {
  const { createAdaptorServer } = await loadNodeServer();
  const server = createAdaptorServer({ fetch: handler, overrideGlobalObjects: false });
  const [convert] = server.listeners("request") as [Listener];
  const listener = withAnswers(options.answer ?? (() => undefined), convert);
  const connections = new Connections(server);
  // A single listener, because Node copies a list of several with every request.
  server.off("request", convert).on("request", (request, response) => {
    connections.add(request.socket, response);
    listener(request, response);
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

/** Returns a listener that sends the responses of `answer`, and passes all other requests to `listener`. */
function withAnswers(answer: NonNullable<ServeOptions["answer"]>, listener: Listener): Listener {
  const pass: Listener = (request, response) => {
    // HTTP/1.0 requests may lack a Host header, but the URL of a Request needs a host.
    request.headers.host ||= `localhost:${request.socket.localPort}`;
    listener(request, response);
  };
  return (request, response) => {
    let found: ReturnType<typeof answer>;
    try {
      found = request.method === "GET" ? answer(request.url!) : undefined;
    } catch {
      // The handler fails as well, and sends an error response.
    }
    if (found === undefined) return pass(request, response);
    if (!(found instanceof Promise)) return send(response, found);
    found.then((it) => send(response, it), () => pass(request, response));
  };
}

function send(response: ServerResponse, { status, headers, body }: PlainResponse): void {
  const bytes = Buffer.byteLength(body);
  response.writeHead(status, { ...headers, "content-length": bytes }).end(body);
}

/**
 * Tracks the connections of a server and their unanswered requests. Node's `close` waits for
 * connections without a complete request, so those are closed here.
 */
class Connections {
  readonly #server: Server;
  readonly #pending = new Map<Socket, Set<ServerResponse>>();
  /** Shared by all responses: a function for each would cost more than the rest of this class. */
  readonly #removeClosed: (this: ServerResponse) => void;
  #closing = false;

  constructor(server: Server) {
    this.#server = server;
    const remove = (response: ServerResponse) => this.#remove(response);
    this.#removeClosed = function () {
      remove(this);
    };
    server.on("connection", (socket) => {
      this.#pending.set(socket, new Set());
      socket.once("close", () => this.#pending.delete(socket));
    });
  }

  /** Adds a request. Call it before the headers are sent, because it may set `connection: close`. */
  add(socket: Socket, response: ServerResponse): void {
    this.#pending.get(socket)?.add(response);
    if (this.#closing) announceEnd(response);
    response.on("close", this.#removeClosed);
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

  #remove(response: ServerResponse): void {
    const { socket } = response.req;
    const responses = this.#pending.get(socket);
    responses?.delete(response);
    if (this.#closing && responses?.size === 0) socket.end();
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
