import { onAbort } from "../_promises.ts";
import {
  CancelledError,
  isCancelledError,
  isTerminatingError,
  TerminatingError,
} from "../errors.ts";

/**
 * The same promise, as long as somebody wants its value: it rejects when `signal` aborts, at once if it
 * has. What was begun goes on in the background, and what it throws then is nobody's concern.
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
    // First, so that what has been cancelled stays so although the value is there.
    return await Promise.race([cancelled, promise]);
  } finally {
    unlink();
  }
}

/**
 * Throws when `signal` has aborted: for loops between whose rounds somebody may have lost interest. The
 * error is that of {@linkcode withCancellation}.
 */
export function checkCancellation(signal: AbortSignal, what: string): void {
  if (signal.aborted) throw cancellation(signal, what);
}

function cancellation({ reason }: AbortSignal, what: string): TerminatingError | CancelledError {
  if (isTerminatingError(reason)) {
    return new TerminatingError(`Gave up ${what}: ${reason.message}`, { cause: reason });
  }
  const why = isCancelledError(reason) ? reason.why : "aborted";
  return new CancelledError(why, what, { cause: reason });
}
