/**
 * The errors that callers catch. Each can be told by name as well, which survives two copies of the
 * package in one process.
 *
 * @module
 */

import { checkDuration } from "./_checks.ts";

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
  /** How much later; more than 12 hours become 12 hours. @default {what the loop's backoff says} */
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

  /** The message is logged with the one that is put off. Throws a `RangeError` for a negative delay. */
  constructor(message: string, options: RetryLaterOptions = {}) {
    super(message, options);
    if (options.delayMs !== undefined) checkDuration("delayMs", options.delayMs);
    this.delayMs = options.delayMs;
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

/** True for a {@linkcode TerminatingError} of any copy of the package. */
export function isTerminatingError(error: unknown): error is TerminatingError {
  return isErrorNamed(error, "TerminatingError");
}

/** True for a {@linkcode CancelledError} of any copy of the package. */
export function isCancelledError(error: unknown): error is CancelledError {
  return isErrorNamed(error, "CancelledError");
}

/** True for a {@linkcode LeaseLostError} of any copy of the package. */
export function isLeaseLostError(error: unknown): error is LeaseLostError {
  return isErrorNamed(error, "LeaseLostError");
}

/** True for a {@linkcode RetryLaterError} of any copy of the package. */
export function isRetryLaterError(error: unknown): error is RetryLaterError {
  return isErrorNamed(error, "RetryLaterError");
}

/** The text of an error about optional packages: what needs them, and how to install them. */
export function missingPackages(what: string, names: readonly string[]): string {
  const all = names.join(" ");
  const [noun, them] = names.length === 1 ? ["package", "it"] : ["packages", "them"];
  const fromNpm = names.map((name) => `npm:${name}`).join(" ");
  return `${what} needs the ${noun} ${
    names.join(" and ")
  }, which cannot be loaded: install ${them} ` +
    `(npm install ${all}, deno add ${fromNpm}, bun add ${all})`;
}
