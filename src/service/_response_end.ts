/**
 * Detects when a response has been sent. When a handler returns a `Response`, its stream may only have
 * begun. Each server reports the end in its own way, through the second argument of the handler (`c.env`
 * in Hono).
 */

/** `@hono/node-server` passes the response of `node:http`. */
interface NodeExchange {
  readonly outgoing: {
    readonly destroyed: boolean;
    once(event: "close", listener: () => void): unknown;
  };
}

/** `Deno.serve` passes a promise of the end. */
interface DenoExchange {
  readonly completed: Promise<void>;
}

/** `Bun.serve` passes itself. Its `requestIP` returns null for a request that is over. */
export interface PollableServer {
  requestIP(request: Request): object | null;
}

type Exchange = Partial<NodeExchange & DenoExchange & PollableServer>;

/** Returns true when the server must be polled for the end of a response. */
export function isPollable(exchange: unknown): exchange is PollableServer {
  return typeof (exchange as Exchange | undefined)?.requestIP === "function";
}

/** Calls `ended` when the response is sent or the client has disconnected. False if unsupported. */
export function onResponseEnd(exchange: unknown, ended: () => void): boolean {
  const { outgoing, completed } = (exchange ?? {}) as Exchange;
  if (typeof outgoing?.once === "function") {
    if (outgoing.destroyed) ended();
    else outgoing.once("close", ended);
    return true;
  }
  if (typeof completed?.then !== "function") return false;
  completed.then(ended, ended);
  return true;
}
