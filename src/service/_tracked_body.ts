import { onAbort } from "../_promises.ts";

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
