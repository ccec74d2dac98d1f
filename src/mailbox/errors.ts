/**
 * What can go wrong with a mailbox.
 *
 * @module
 */

import { isErrorNamed } from "../errors.ts";

/** The base of everything a mailbox throws. */
export class MailboxError extends Error {
  /** What {@linkcode isMailboxError} looks at. */
  override readonly name: string = "MailboxError";
}

/** The message was delivered to somebody else meanwhile, or is gone: this delivery has no say any more. */
export class ReceiptHandleExpiredError extends MailboxError {
  /** What {@linkcode isMailboxError} looks at. */
  override readonly name = "ReceiptHandleExpiredError";
}

/** The mailbox holds as much as it may. Nothing was stored; try again later. */
export class MailboxFullError extends MailboxError {
  /** What {@linkcode isMailboxError} looks at. */
  override readonly name = "MailboxFullError";
}

/** The mailbox was closed here. */
export class MailboxClosedError extends MailboxError {
  /** What {@linkcode isMailboxError} looks at. */
  override readonly name = "MailboxClosedError";
}

/** The body cannot be stored, or what is stored cannot be read. */
export class SerializationError extends MailboxError {
  /** What {@linkcode isMailboxError} looks at. */
  override readonly name = "SerializationError";
}

/** The engine cannot be reached, or does not answer as it should. */
export class MailboxConnectionError extends MailboxError {
  /** What {@linkcode isMailboxError} looks at. */
  override readonly name = "MailboxConnectionError";
  /**
   * Says what a retry cannot repair: the client package or the runtime's own client is missing, or the
   * schema of a database does not exist or is older than this package needs.
   */
  declare readonly reason?: "client_missing" | "schema_missing" | "schema_outdated";

  /** Makes an error with an optional cause and an optional {@linkcode reason}. */
  constructor(
    message?: string,
    options: ErrorOptions & { readonly reason?: MailboxConnectionError["reason"] } = {},
  ) {
    super(message, options);
    if (options.reason !== undefined) this.reason = options.reason;
  }
}

/** There is nowhere to send a reply to. */
export class ReplyNotAvailableError extends MailboxError {
  /** What {@linkcode isMailboxError} looks at. */
  override readonly name = "ReplyNotAvailableError";
}

/** The message was settled before: a delivery is acknowledged, nacked, released or buried once. */
export class MessageFinalizedError extends MailboxError {
  /** What {@linkcode isMailboxError} looks at. */
  override readonly name = "MessageFinalizedError";
}

/** An option makes no sense. Nothing has happened. */
export class InvalidParameterError extends MailboxError {
  /** What {@linkcode isMailboxError} looks at. */
  override readonly name = "InvalidParameterError";
}

/** True for any {@linkcode MailboxError} of this name, of any copy of the package. */
export function isMailboxError(error: unknown, name?: MailboxErrorName): error is MailboxError {
  return isErrorNamed(error, name ?? NAMES);
}

/** The names of the errors of a mailbox. */
export type MailboxErrorName =
  | "MailboxError"
  | "ReceiptHandleExpiredError"
  | "MailboxFullError"
  | "MailboxClosedError"
  | "SerializationError"
  | "MailboxConnectionError"
  | "ReplyNotAvailableError"
  | "MessageFinalizedError"
  | "InvalidParameterError";

const NAMES: ReadonlySet<string> = new Set<MailboxErrorName>([
  "MailboxError",
  "ReceiptHandleExpiredError",
  "MailboxFullError",
  "MailboxClosedError",
  "SerializationError",
  "MailboxConnectionError",
  "ReplyNotAvailableError",
  "MessageFinalizedError",
  "InvalidParameterError",
]);
