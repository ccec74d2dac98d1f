/** Options for {@linkcode delay}. */
export interface DelayOptions {
  /** Ends the delay early: the promise rejects with the signal's reason. */
  signal?: AbortSignal;
  /**
   * Whether the pending delay keeps the process alive. `false` works on Deno alone.
   * @default {true}
   */
  persistent?: boolean;
}

/** Options for {@linkcode deadline}. */
export interface DeadlineOptions {
  /** Ends the wait early: the promise rejects with the signal's reason. */
  signal?: AbortSignal;
}

/** Resolves after `ms` milliseconds, or rejects with the signal's reason. */
export declare function delay(ms: number, options?: DelayOptions): Promise<void>;

/** Rejects with a `TimeoutError` when `p` has not settled within `ms` milliseconds. */
export declare function deadline<T>(
  p: Promise<T>,
  ms: number,
  options?: DeadlineOptions,
): Promise<T>;

/** Makes a promise reject with the signal's reason once the signal aborts. */
export declare function abortable<T>(p: Promise<T>, signal: AbortSignal): Promise<T>;
/** Makes an async iterable throw the signal's reason once the signal aborts. */
export declare function abortable<T>(p: AsyncIterable<T>, signal: AbortSignal): AsyncGenerator<T>;
