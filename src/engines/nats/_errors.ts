import { errorText } from "../../errors.ts";
import { isMailboxError, MailboxConnectionError } from "../../mailbox/errors.ts";

/** What a server refuses with; the numbers are those of JetStream. */
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
export const CONSUMER_NOT_FOUND = 10_014;
export const NO_MESSAGE = 10_037;
export const STORE_FAILED = 10_077;
/** Nobody listens to the subject: there is no such stream or consumer, or no JetStream at all. */
export const NO_RESPONDERS = 503;

/**
 * Answers that a server gives for a moment only. The status cannot tell them apart: 503 also means that
 * JetStream is not enabled.
 */
const TRANSIENT: ReadonlySet<number> = new Set([
  10_004, // incomplete results
  10_007, // JetStream cluster not assigned to this server
  10_008, // JetStream system temporarily unavailable
  10_009, // JetStream cluster can not handle request
  10_012, // a consumer could not be created
  10_049, // error creating store for stream: at the same time the last stream of the account was deleted
  10_104, // error creating store for consumer
  10_118, // stream is offline
  NO_RESPONDERS, // JetStream is starting
  STREAM_NOT_FOUND, // deleted between two steps
  CONSUMER_NOT_FOUND, // likewise
]);

/** Returns true when the same request may succeed a moment later. */
export function isTransient(error: unknown): error is JetStreamError {
  return error instanceof JetStreamError && TRANSIENT.has(error.code);
}

/** Answers to a question about something that is not there. */
const MISSING: ReadonlySet<number> = new Set([STREAM_NOT_FOUND, CONSUMER_NOT_FOUND, NO_RESPONDERS]);

/** Returns true when a stream or a consumer may be gone. */
export function isMissing(error: unknown): error is JetStreamError {
  return error instanceof JetStreamError && MISSING.has(error.code);
}

/** A server that did not answer in time. */
export class NoAnswerError extends MailboxConnectionError {
  constructor(what: string, timeoutMs: number) {
    super(
      `NATS did not answer within ${timeoutMs} ms when asked to ${what}; is it overloaded or frozen? It ` +
        "is tried again with the next call",
    );
  }
}

/** What a client threw, as callers of a mailbox know it. */
export function connectionError(what: string, error: unknown): Error {
  if (isMailboxError(error)) return error;
  const text = (error instanceof Error ? error.message : errorText(error)).replace(/\.$/, "");
  return new MailboxConnectionError(`NATS failed to ${what}: ${text}${advice(text)}`, {
    cause: error,
  });
}

/** The connection is not there, or went away meanwhile. */
export function connectionLost(what: string): MailboxConnectionError {
  return connectionError(what, new Error("the connection is lost")) as MailboxConnectionError;
}

function advice(text: string): string {
  if (/ECONNREFUSED|ENOTFOUND|ETIMEDOUT|refused|timeout|closed|is lost/i.test(text)) {
    return "; is the server there? It is tried again with the next call";
  }
  if (/authorization|authentication|permissions/i.test(text)) {
    return "; check the user, the password and the permissions";
  }
  if (/no responders|not enabled/i.test(text)) {
    return "; is JetStream enabled there (nats-server --jetstream)?";
  }
  if (/creating store/i.test(text)) {
    return "; check the free space and the permissions of the server's store directory";
  }
  if (/insufficient|resource limits/i.test(text)) return "; nothing was stored";
  return "";
}
