/**
 * The errors that callers catch. The `is…` functions compare names, so that they also recognize an error
 * of another copy of the package in the same process.
 *
 * @module
 */

import { checkDuration } from "./_checks.ts";

/** The code of {@linkcode TerminatingError}, the same on every protocol. */
export const TERMINATING = 5006;

/** The process is stopping and refuses new work. Try again, preferably on another worker. */
export class TerminatingError extends Error {
  /** {@linkcode isTerminatingError} compares it. */
  override readonly name = "TerminatingError";
  /** Always 5006. */
  readonly code: typeof TERMINATING = TERMINATING;
}

/**
 * Why work was cancelled: `deadline` (the stop ran out of time), `forced` (a second signal, such as a
 * second Ctrl+C), `aborted` (the caller's own AbortSignal) or `cancelled` (`cancel` of the mailbox deleted
 * the message).
 */
export type CancelReason = "deadline" | "forced" | "aborted" | "cancelled";

/** Work in flight was cancelled. It is the reason of the handler's aborted `signal`. */
export class CancelledError extends Error {
  /** {@linkcode isCancelledError} compares it. */
  override readonly name = "CancelledError";
  /** Why the work was cancelled. */
  readonly reason: CancelReason;

  /** Creates the error. `what` names the work, as in `loop "orders"`. */
  constructor(reason: CancelReason, what: string, options?: ErrorOptions) {
    super(`Cancelled ${what}: ${CANCEL_TEXT[reason]}`, options);
    this.reason = reason;
  }
}

/** The lease of a message expired while its handler ran: another worker may have received it. */
export class LeaseLostError extends Error {
  /** {@linkcode isLeaseLostError} compares it. */
  override readonly name = "LeaseLostError";
}

/** Returns the error for the lease on the message with this id. */
export function leaseLost(id: string): LeaseLostError {
  return new LeaseLostError(
    `The lease on message ${id} was lost: its visibility timeout passed before it could be extended. ` +
      "Another worker may be handling the message now",
  );
}

/** Options of {@linkcode RetryLaterError}. */
export interface RetryLaterOptions extends ErrorOptions {
  /** The pause in milliseconds, up to the longest delay of the engine. @default {the pause of the loop's backoff} */
  readonly delayMs?: number;
  /**
   * True pauses the whole queue for the same time, in all processes: for a provider that refuses all calls, as
   * with the HTTP status 429. Needs `capabilities.pause`; without it only the message waits. @default {false}
   */
  readonly pauseQueue?: boolean;
}

/**
 * A handler throws this to receive its message again later. This is not a failure: it uses up no attempt
 * and does not dead-letter the message.
 */
export class RetryLaterError extends Error {
  /** {@linkcode isRetryLaterError} compares it. */
  override readonly name = "RetryLaterError";
  /** The pause in milliseconds; undefined uses the loop's backoff. */
  readonly delayMs: number | undefined;
  /** True when the whole queue pauses for the same time. */
  readonly pauseQueue: boolean;

  /** Creates the error. `message` is logged. @throws {TypeError | RangeError} when the delay is invalid */
  constructor(message: string, options: RetryLaterOptions = {}) {
    super(message, options);
    if (options.delayMs !== undefined) checkDuration("delayMs", options.delayMs);
    this.delayMs = options.delayMs;
    this.pauseQueue = options.pauseQueue ?? false;
  }
}

/** An attempt took longer than its deadline. It is the reason of the attempt's aborted `signal`. */
export class DeadlineExceededError extends Error {
  /** The class name, for logs and for checks without `instanceof`. */
  override readonly name = "DeadlineExceededError";

  /** Creates the error with the deadline in its message. */
  constructor(deadlineMs: number) {
    super(`Request took longer than its deadline of ${deadlineMs} ms`);
  }
}

const CANCEL_TEXT: Record<CancelReason, string> = {
  deadline: "the stop is about to run out of time",
  forced: "the stop was forced",
  aborted: "the caller aborted it",
  cancelled: "the message was cancelled",
};

/** Returns the text of any thrown value, `Name: message` for an error. Never throws. */
export function errorText(error: unknown): string {
  try {
    return String(error);
  } catch {
    return `a value of type ${typeof error} that has no text`;
  }
}

/** Returns whether `error` is an error with this name. Never throws, whatever its getters do. */
export function isErrorNamed(error: unknown, name: string | ReadonlySet<string>): boolean {
  try {
    if (!(error instanceof Error)) return false;
    return typeof name === "string" ? error.name === name : name.has(error.name);
  } catch {
    return false;
  }
}

/** Returns true for a {@linkcode TerminatingError} of any copy of the package. */
export function isTerminatingError(error: unknown): error is TerminatingError {
  return isErrorNamed(error, "TerminatingError");
}

/** Returns true for a {@linkcode CancelledError} of any copy of the package. */
export function isCancelledError(error: unknown): error is CancelledError {
  return isErrorNamed(error, "CancelledError");
}

/** Returns true for a {@linkcode LeaseLostError} of any copy of the package. */
export function isLeaseLostError(error: unknown): error is LeaseLostError {
  return isErrorNamed(error, "LeaseLostError");
}

/** Returns true for a {@linkcode RetryLaterError} of any copy of the package. */
export function isRetryLaterError(error: unknown): error is RetryLaterError {
  return isErrorNamed(error, "RetryLaterError");
}

/** Returns the message of an error about missing optional packages: how to install them. */
export function missingPackages(what: string, names: readonly string[]): string {
  const all = names.join(" ");
  const [noun, them] = names.length === 1 ? ["package", "it"] : ["packages", "them"];
  const fromNpm = names.map((name) => `npm:${name}`).join(" ");
  return `${what} needs the ${noun} ${
    names.join(" and ")
  }, which cannot be loaded: install ${them} ` +
    `(npm install ${all}, deno add ${fromNpm}, bun add ${all})`;
}
