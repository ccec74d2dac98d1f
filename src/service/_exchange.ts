/**
 * When an answer has gone out. A handler is done when it returns a `Response`, but a stream may only
 * have begun then, and a client may take its time. Servers know; each tells in its own way, through the
 * second argument of the handler (`c.env` in Hono).
 */

/** `@hono/node-server` hands over the response of `node:http`. */
interface NodeExchange {
  readonly outgoing: {
    readonly destroyed: boolean;
    once(event: "close", listener: () => void): unknown;
  };
}

/** `Deno.serve` promises the end. */
interface DenoExchange {
  readonly completed: Promise<void>;
}

/** `Bun.serve` hands over itself, and can be asked: it knows no address of a request that is over. */
interface BunExchange {
  requestIP(request: Request): object | null;
}

/**
 * Calls `ended` when the answer has gone out or the client has gone, or returns a question to ask again
 * and again; undefined when the server does not tell.
 */
export function watchExchange(
  exchange: unknown,
  request: Request,
  ended: () => void,
): "told" | (() => boolean) | undefined {
  if (typeof exchange !== "object" || exchange === null) return undefined;
  if (isNode(exchange)) {
    if (exchange.outgoing.destroyed) ended();
    else exchange.outgoing.once("close", ended);
    return "told";
  }
  if (isDeno(exchange)) {
    exchange.completed.then(ended, ended);
    return "told";
  }
  if (isBun(exchange)) return () => exchange.requestIP(request) === null;
  return undefined;
}

function isNode(exchange: Partial<NodeExchange>): exchange is NodeExchange {
  return typeof exchange.outgoing?.once === "function";
}

function isDeno(exchange: Partial<DenoExchange>): exchange is DenoExchange {
  return typeof exchange.completed?.then === "function";
}

function isBun(exchange: Partial<BunExchange>): exchange is BunExchange {
  return typeof exchange.requestIP === "function";
}
