import { onAbort } from "../_promises.ts";

/** Options of {@linkcode trackedBody}. */
export interface TrackedBodyOptions {
  /** So many bytes are read before anybody asks for them: a short body ends although it stays unread. */
  readonly readAheadBytes?: number;
  /** Breaks the body when it aborts. `fetch` of Deno breaks only a read that waits at that moment. */
  readonly signal?: AbortSignal;
}

/** What is left to do for a body that is garbage before it has ended. */
interface Remains {
  readonly reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly ended: () => void;
}

const dropped = new FinalizationRegistry<Remains>(({ reader, ended }) => {
  ended();
  reader.cancel().catch(() => {});
});

/**
 * The source of a tracked body. The stream needs it for as long as it can be read, so that it is garbage
 * exactly when the body is; what it tells must not lead back to it.
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
      this.#signal?.throwIfAborted(); // what was cut off looks as if it had come to its end
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
 * The same answer; `ended` is called once when its body has been read to the end, broke, was given up, or
 * is garbage.
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
