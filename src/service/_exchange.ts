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
export interface AskableServer {
  requestIP(request: Request): object | null;
}

type Exchange = Partial<NodeExchange & DenoExchange & AskableServer>;

/** True when the server has to be asked whether an answer has gone out. */
export function canBeAsked(exchange: unknown): exchange is AskableServer {
  return typeof (exchange as Exchange | undefined)?.requestIP === "function";
}

/** Has `ended` called when the answer has gone out or the client has gone; false when nobody will. */
export function tellsEnd(exchange: unknown, ended: () => void): boolean {
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
