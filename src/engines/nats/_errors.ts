import { errorText } from "../../errors.ts";
import { isMailboxError, MailboxConnectionError } from "../../mailbox/errors.ts";

/** An error answer of the server, with its JetStream error code. */
export class JetStreamError extends MailboxConnectionError {
  readonly code: number;
  readonly text: string;

  constructor(what: string, code: number, text: string) {
    super(`NATS failed to ${what}: ${text}${advice(text)}`);
    this.code = code;
    this.text = text;
  }
}

export const STREAM_NOT_FOUND = 10_059;
const CONSUMER_NOT_FOUND = 10_014;
export const STORE_FAILED = 10_077;
export const NO_MESSAGE = 10_037;
/** The subject has no subscriber: the stream, the consumer or JetStream itself is missing. */
export const NO_RESPONDERS = 503;

/** Error codes of a missing stream or consumer. */
const MISSING: readonly number[] = [STREAM_NOT_FOUND, CONSUMER_NOT_FOUND, NO_RESPONDERS];

/**
 * Error codes that may disappear on a retry. The HTTP-like status is too coarse: 503 also means that
 * JetStream is not enabled.
 */
const TRANSIENT: readonly number[] = [
  10_004, // incomplete results
  10_007, // JetStream cluster not assigned to this server
  10_008, // JetStream system temporarily unavailable
  10_009, // JetStream cluster can not handle request
  10_012, // a consumer could not be created
  10_049, // error creating store for stream, while the last stream of the account is being deleted
  10_104, // error creating store for consumer
  10_118, // stream is offline
  ...MISSING, // JetStream is starting, or they were deleted between two steps of the set-up
];

/** Returns true when the same request may succeed a moment later. */
export function isTransient(error: unknown): error is JetStreamError {
  return error instanceof JetStreamError && TRANSIENT.includes(error.code);
}

/** Returns true when a stream or a consumer may be gone. */
export function isMissing(error: unknown): error is JetStreamError {
  return error instanceof JetStreamError && MISSING.includes(error.code);
}

/** Returns the error of a message that has a status code instead of an answer. */
export function statusError(
  what: string,
  { code, description }: { readonly code: number; readonly description: string },
): JetStreamError {
  if (code === NO_RESPONDERS) return new JetStreamError(what, code, "no responders");
  if (/consumer deleted/i.test(description)) {
    return new JetStreamError(what, CONSUMER_NOT_FOUND, "consumer not found");
  }
  return new JetStreamError(what, code, description);
}

/** The server did not answer within the call timeout. */
export class NoAnswerError extends MailboxConnectionError {
  constructor(what: string, timeoutMs: number) {
    super(
      `NATS did not answer within ${timeoutMs} ms when asked to ${what}; it may be overloaded or frozen. The ` +
        "next call tries again",
    );
  }
}

/** Wraps an error of the client in a `MailboxConnectionError`. */
export function connectionError(what: string, error: unknown): Error {
  if (isMailboxError(error)) return error;
  const text = (error instanceof Error ? error.message : errorText(error)).replace(/\.$/, "");
  return new MailboxConnectionError(`NATS failed to ${what}: ${text}${advice(text)}`, {
    cause: error,
  });
}

/** Returns the error for a connection that is not established or was lost during the call. */
export function connectionLost(what: string): Error {
  return connectionError(what, new Error("the connection is lost"));
}

function advice(text: string): string {
  if (/ECONNREFUSED|ENOTFOUND|ETIMEDOUT|refused|timeout|closed|is lost/i.test(text)) {
    return "; check that the server is running. The next call tries again";
  }
  if (/authorization|authentication|permissions/i.test(text)) {
    return "; check the user, the password and the permissions";
  }
  if (/no responders|not enabled/i.test(text)) {
    return "; enable JetStream on the server (nats-server --jetstream)";
  }
  if (/creating store/i.test(text)) {
    return "; check the free space and the permissions of the server's store directory";
  }
  if (/insufficient|resource limits/i.test(text)) return "; nothing was stored";
  return "";
}
