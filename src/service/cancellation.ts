import { onAbort } from "../_promises.ts";
import {
  CancelledError,
  isCancelledError,
  isTerminatingError,
  TerminatingError,
} from "../errors.ts";

/**
 * Returns the value of `promise`, and rejects when `signal` aborts. The work behind `promise` continues in
 * the background, and its later errors are ignored.
 *
 * The error names `what`. It is a `TerminatingError` when the signal aborted because a stop began, and a
 * `CancelledError` otherwise.
 *
 * @example
 * ```ts
 * import { withCancellation } from "@lastcall/lastcall/service";
 *
 * const controller = new AbortController();
 * const page = withCancellation(new Promise(() => {}), controller.signal, "loading the page");
 * controller.abort();
 * const text = await page.catch((error) => error.message);
 * console.assert(text === "Cancelled loading the page: the caller aborted it");
 * ```
 */
export async function withCancellation<T>(
  promise: PromiseLike<T>,
  signal: AbortSignal,
  what: string,
): Promise<T> {
  let unlink: () => void = () => {};
  const cancelled = new Promise<never>((_, reject) => {
    unlink = onAbort(signal, () => reject(cancellation(signal, what)));
  });
  try {
    // `cancelled` first, so that an aborted signal wins over a value that is already there.
    return await Promise.race([cancelled, promise]);
  } finally {
    unlink();
  }
}

/**
 * Throws the error of {@linkcode withCancellation} when `signal` has aborted. Call it between the
 * iterations of a long computation.
 */
export function checkCancellation(signal: AbortSignal, what: string): void {
  if (signal.aborted) throw cancellation(signal, what);
}

function cancellation({ reason }: AbortSignal, what: string): TerminatingError | CancelledError {
  if (isTerminatingError(reason)) {
    return new TerminatingError(`Gave up ${what}: ${reason.message}`, { cause: reason });
  }
  const cancelReason = isCancelledError(reason) ? reason.reason : "aborted";
  return new CancelledError(cancelReason, what, { cause: reason });
}
