/**
 * The errors that callers catch. Each can be told by name as well, which survives two copies of the
 * package in one process.
 *
 * @module
 */

/** The code of {@linkcode TerminatingError}, the same on every protocol. */
export const TERMINATING = 5006;

/** New work was refused because the process is stopping. Try again, preferably elsewhere. */
export class TerminatingError extends Error {
  /** What {@linkcode isTerminatingError} looks at. */
  override readonly name = "TerminatingError";
  /** Always 5006. */
  readonly code: typeof TERMINATING = TERMINATING;
}

/**
 * Why work was cut short: `deadline` (the stop ran out of time), `forced` (somebody insisted, as with
 * a second Ctrl+C) or `aborted` (the caller's own signal).
 */
export type CancelReason = "deadline" | "forced" | "aborted";

/** Work in flight was told to end. It is the reason of the handler's aborted `signal`. */
export class CancelledError extends Error {
  /** What {@linkcode isCancelledError} looks at. */
  override readonly name = "CancelledError";
  /** Why it had to end. */
  readonly why: CancelReason;

  /** `what` names the work, as in `loop "orders"`. */
  constructor(why: CancelReason, what: string, options?: ErrorOptions) {
    super(`Cancelled ${what}: ${CANCEL_TEXT[why]}`, options);
    this.why = why;
  }
}

/** The message went back to its mailbox while it was being worked on: somebody else may have it. */
export class LeaseLostError extends Error {
  /** What {@linkcode isLeaseLostError} looks at. */
  override readonly name = "LeaseLostError";
}

/** Options of {@linkcode RetryLaterError}. */
export interface RetryLaterOptions extends ErrorOptions {
  /** How much later. @default {what the loop's backoff says} */
  readonly delayMs?: number;
}

/**
 * A handler throws this to have its message again later. That is no failure: it spends no attempt, and
 * the message is not buried for it.
 */
export class RetryLaterError extends Error {
  /** What {@linkcode isRetryLaterError} looks at. */
  override readonly name = "RetryLaterError";
  /** When to have it again; undefined leaves it to the loop's backoff. */
  readonly delayMs: number | undefined;

  /** The message is logged with the one that is put off. */
  constructor(message: string, options: RetryLaterOptions = {}) {
    super(message, options);
    this.delayMs = options.delayMs;
  }
}

const CANCEL_TEXT: Record<CancelReason, string> = {
  deadline: "the stop is about to run out of time",
  forced: "the stop was forced",
  aborted: "the caller aborted it",
};

/** True for a {@linkcode TerminatingError} of any copy of the package. */
export function isTerminatingError(error: unknown): error is TerminatingError {
  return error instanceof Error && error.name === "TerminatingError";
}

/** True for a {@linkcode CancelledError} of any copy of the package. */
export function isCancelledError(error: unknown): error is CancelledError {
  return error instanceof Error && error.name === "CancelledError";
}

/** True for a {@linkcode LeaseLostError} of any copy of the package. */
export function isLeaseLostError(error: unknown): error is LeaseLostError {
  return error instanceof Error && error.name === "LeaseLostError";
}

/** True for a {@linkcode RetryLaterError} of any copy of the package. */
export function isRetryLaterError(error: unknown): error is RetryLaterError {
  return error instanceof Error && error.name === "RetryLaterError";
}
