/** Helpers for promises and abort signals. */

import type { Clock } from "./clock.ts";

/** A promise and the function that resolves it. `Promise.withResolvers` needs Node 22. */
export interface Deferred<T> {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
}

/** Creates a {@linkcode Deferred}. */
export function deferred<T = void>(): Deferred<T> {
  let resolve!: (value: T) => void;
  const promise = new Promise<T>((done) => resolve = done);
  return { promise, resolve };
}

/** Returns whether `promise` resolves or rejects within `ms` milliseconds. */
export async function settlesWithin(
  promise: Promise<unknown>,
  ms: number,
  clock: Clock,
): Promise<boolean> {
  const expired = deferred<false>();
  const cancel = clock.schedule(ms, () => expired.resolve(false));
  try {
    return await Promise.race([promise.then(() => true, () => true), expired.promise]);
  } finally {
    cancel();
  }
}

/** The pauses before a call is repeated, in milliseconds. They double. */
const REPEAT_MS = { first: 50, longest: 1_000 };

/**
 * Repeats a call until it resolves or `signal` aborts. The call must be idempotent, because a failed call may have
 * taken effect. Resolves with undefined if the last call before the abort failed.
 */
export async function untilAnswered<T>(
  call: () => T | Promise<T>,
  clock: Clock,
  signal: AbortSignal,
  onFailure: (error: unknown) => void,
): Promise<T | undefined> {
  for (let ms = REPEAT_MS.first;; ms = Math.min(2 * ms, REPEAT_MS.longest)) {
    try {
      return await call();
    } catch (error) {
      onFailure(error);
    }
    await clock.sleep(ms, { signal }).catch(() => {}); // aborted
    if (signal.aborted) return undefined;
  }
}

/** Calls `call`, and passes to `onError` what it throws or rejects with. */
export function contain(call: () => unknown, onError: (error: unknown) => void): void {
  try {
    const result = call();
    if (typeof (result as PromiseLike<unknown> | null | undefined)?.then === "function") {
      Promise.resolve(result).then(undefined, onError);
    }
  } catch (error) {
    onError(error);
  }
}

/** Calls `listener` once when `signal` aborts, now if it has aborted. Returns the remover. */
export function onAbort(signal: AbortSignal | undefined, listener: () => void): () => void {
  if (signal === undefined) return () => {};
  if (signal.aborted) {
    listener();
    return () => {};
  }
  signal.addEventListener("abort", listener, { once: true });
  return () => signal.removeEventListener("abort", listener);
}

/** Returns the value of `promise`. Rejects with the signal's reason when `signal` aborts first. */
export async function abortable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  let unlink: () => void = () => {};
  const aborted = new Promise<never>((_, reject) => {
    unlink = onAbort(signal, () => reject(signal.reason));
  });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    unlink();
  }
}
