/**
 * Detects when a response has ended. When a handler returns a `Response`, its stream may only have begun.
 * Each server reports the end in its own way, through the second argument of the handler (`c.env` in Hono).
 * Where there is no server, `trackedBody` wraps the body.
 *
 * @module
 */

import { onAbort } from "../_promises.ts";

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

/** Options of {@linkcode trackedBody}. */
export interface TrackedBodyOptions {
  /** Bytes to read ahead, so that a short body ends even if it is never read. */
  readonly readAheadBytes?: number;
  /** Fails the body when it aborts. `fetch` of Deno fails only a read that waits at that moment. */
  readonly signal?: AbortSignal;
}

/** What to clean up for a body that is garbage-collected before its end. */
interface Cleanup {
  readonly reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly ended: () => void;
}

const dropped = new FinalizationRegistry<Cleanup>(({ reader, ended }) => {
  ended();
  reader.cancel().catch(() => {});
});

/**
 * The source of a tracked body. The stream references it, so it is garbage-collected together with the
 * body. The callbacks must not reference it.
 */
class TrackedSource implements UnderlyingDefaultSource<Uint8Array> {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #signal: AbortSignal | undefined;
  readonly #ended: () => void;

  constructor(
    body: ReadableStream<Uint8Array>,
    signal: AbortSignal | undefined,
    ended: () => void,
  ) {
    const reader = this.#reader = body.getReader();
    this.#signal = signal;
    const unlink = onAbort(signal, () => void reader.cancel(signal?.reason).catch(() => {}));
    this.#ended = () => {
      unlink();
      ended();
    };
    dropped.register(this, { reader, ended: this.#ended }, this);
  }

  async pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    try {
      const { done, value } = await this.#reader.read();
      this.#signal?.throwIfAborted(); // an aborted body also reports `done`
      if (!done) return controller.enqueue(value);
      this.#end();
      controller.close();
    } catch (error) {
      this.#end();
      controller.error(error);
    }
  }

  async cancel(reason: unknown): Promise<void> {
    this.#end();
    await this.#reader.cancel(reason);
  }

  #end(): void {
    dropped.unregister(this);
    this.#ended();
  }
}

/**
 * Returns the same response, and calls `ended` once when its body is read to the end, fails, is cancelled
 * or is garbage-collected.
 */
export function trackedBody(
  response: Response,
  ended: () => void,
  options: TrackedBodyOptions = {},
): Response {
  if (response.body === null) {
    ended();
    return response;
  }
  const { readAheadBytes = 0, signal } = options;
  const body = new ReadableStream<Uint8Array>(new TrackedSource(response.body, signal, ended), {
    highWaterMark: readAheadBytes,
    size: ({ byteLength }) => byteLength,
  });
  return new Response(body, response);
}
