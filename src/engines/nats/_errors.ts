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

/** What a client threw, as callers of a mailbox know it. */
export function connectionError(what: string, error: unknown): Error {
  if (isMailboxError(error)) return error;
  const text = (error instanceof Error ? error.message : String(error)).replace(/\.$/, "");
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
  if (/insufficient|resource limits/i.test(text)) return "; nothing was stored";
  return "";
}
