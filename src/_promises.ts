/** Small pieces for waiting, which the oldest supported Node does not bring. */

import type { Clock } from "./clock.ts";

/** A promise with its handles outside. */
export interface Deferred<T> {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
}

/** Makes a {@linkcode Deferred}. */
export function deferred<T = void>(): Deferred<T> {
  let resolve!: (value: T) => void;
  const promise = new Promise<T>((done) => resolve = done);
  return { promise, resolve };
}

/** True when `promise` settles, in whichever way, before `ms` have passed. */
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

/** Calls `call` so that neither what it throws nor a promise that it rejects escapes. */
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

/** Calls `listener` once when `signal` aborts, at once if it has, and returns the remover. */
export function onAbort(signal: AbortSignal | undefined, listener: () => void): () => void {
  if (signal === undefined) return () => {};
  if (signal.aborted) {
    listener();
    return () => {};
  }
  signal.addEventListener("abort", listener, { once: true });
  return () => signal.removeEventListener("abort", listener);
}

/** The same promise, as long as its value is wanted: it rejects with the reason when `signal` aborts. */
export async function whileWanted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
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
