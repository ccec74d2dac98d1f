/**
 * The errors of mailboxes.
 *
 * @module
 */

import { isErrorNamed } from "../errors.ts";

/** The base class of the errors of mailboxes. */
export class MailboxError extends Error {
  /** The name that {@linkcode isMailboxError} compares. */
  override readonly name: string = "MailboxError";
}

/** The receipt handle expired: the message is gone, or was delivered to another worker. */
export class ReceiptHandleExpiredError extends MailboxError {
  /** The name that {@linkcode isMailboxError} compares. */
  override readonly name = "ReceiptHandleExpiredError";
}

/** The mailbox has reached its `maxSize`. Nothing was stored; try again later. */
export class MailboxFullError extends MailboxError {
  /** The name that {@linkcode isMailboxError} compares. */
  override readonly name = "MailboxFullError";
}

/** The mailbox object was closed. */
export class MailboxClosedError extends MailboxError {
  /** The name that {@linkcode isMailboxError} compares. */
  override readonly name = "MailboxClosedError";
}

/** A body cannot be encoded, or a stored body cannot be decoded. */
export class SerializationError extends MailboxError {
  /** The name that {@linkcode isMailboxError} compares. */
  override readonly name = "SerializationError";
}

/** The engine cannot be reached, or gave an unexpected answer. */
export class MailboxConnectionError extends MailboxError {
  /** The name that {@linkcode isMailboxError} compares. */
  override readonly name = "MailboxConnectionError";
  /**
   * Says what a retry cannot repair: the client package or the runtime's own client is missing, or the
   * schema of a database does not exist or is older than this package needs.
   */
  declare readonly reason?: "client_missing" | "schema_missing" | "schema_outdated";

  /** Creates an error with an optional cause and an optional {@linkcode reason}. */
  constructor(
    message?: string,
    options: ErrorOptions & { readonly reason?: MailboxConnectionError["reason"] } = {},
  ) {
    super(message, options);
    if (options.reason !== undefined) this.reason = options.reason;
  }
}

/** The message has no reply mailbox, or its name is unknown. */
export class ReplyNotAvailableError extends MailboxError {
  /** The name that {@linkcode isMailboxError} compares. */
  override readonly name = "ReplyNotAvailableError";
}

/** The message was settled before. A delivery is acknowledged, nacked, released or dead-lettered once. */
export class MessageFinalizedError extends MailboxError {
  /** The name that {@linkcode isMailboxError} compares. */
  override readonly name = "MessageFinalizedError";
}

/** No reply to a `request` arrived in time. */
export class RequestTimeoutError extends MailboxError {
  /** The name that {@linkcode isMailboxError} compares. */
  override readonly name = "RequestTimeoutError";
}

/**
 * This mailbox cannot take a value that another may: a body above its limit, a URL or client that its engine
 * cannot use, a delay or checkpoint that its engine does not have. Nothing was changed. Values that no
 * mailbox takes are a `TypeError` or a `RangeError`.
 */
export class InvalidParameterError extends MailboxError {
  /** The name that {@linkcode isMailboxError} compares. */
  override readonly name = "InvalidParameterError";
}

/** Returns whether an error is a {@linkcode MailboxError} of this name, from any copy of the package. */
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
  | "RequestTimeoutError"
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
  "RequestTimeoutError",
  "InvalidParameterError",
]);

/** Returns the error of a send of `fresh` messages to a mailbox that holds `count` of at most `maxSize`. */
export function fullError(
  name: string,
  count: number | string,
  maxSize: number,
  fresh: number | string,
): MailboxFullError {
  return new MailboxFullError(
    `Mailbox "${name}" is full: it holds ${count} of ${maxSize} messages and cannot take ${fresh} more; ` +
      "receive some, or raise maxSize",
  );
}
