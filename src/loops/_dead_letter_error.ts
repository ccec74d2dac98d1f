import type { DeadLetterReason } from "../mailbox/mailbox.ts";

/** Loops of this package throw this in their handler to dead-letter the message, whatever the policy is. */
export class DeadLetterError extends Error {
  override readonly name = "DeadLetterError";
  readonly reason: DeadLetterReason;

  constructor(reason: DeadLetterReason, cause: unknown) {
    super(reason.error ?? reason.reason, { cause });
    this.reason = reason;
  }
}

/** Returns whether `error` is a {@linkcode DeadLetterError}. Never throws, whatever a proxy does. */
export function isDeadLetterError(error: unknown): error is DeadLetterError {
  try {
    return error instanceof DeadLetterError;
  } catch {
    return false;
  }
}
