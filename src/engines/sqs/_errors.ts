import { errorText } from "../../errors.ts";
import { isMailboxError, MailboxConnectionError } from "../../mailbox/errors.ts";

/** What the SDK threw, as callers of a mailbox know it. */
export function connectionError(what: string, error: unknown): Error {
  if (isMailboxError(error)) return error;
  const text = textOf(error);
  return new MailboxConnectionError(`SQS failed to ${what}: ${text}${advice(error, text)}`, {
    cause: withoutRequest(error, text),
  });
}

/** True when the queue is not there, by all the names this error has had. */
export function isNoQueue(error: unknown): boolean {
  return /QueueDoesNotExist|NonExistentQueue/.test(codeOf(error));
}

/** True when these credentials may not ask: whether a queue is there is not even said. */
export function isForbidden(error: unknown): boolean {
  return /AccessDenied/.test(codeOf(error));
}

/** True when the queue was purged less than a minute ago. */
export function isPurging(error: unknown): boolean {
  return /PurgeQueueInProgress/.test(codeOf(error));
}

/** True for a failure that may pass by itself, of one entry of a batch. */
export function isPassing(code: string, senderFault: boolean): boolean {
  return !senderFault || /throttl|unavailable|internal|timeout/i.test(code);
}

function codeOf(error: unknown): string {
  const { name = "", cause } = error instanceof Error ? error : new Error();
  return cause instanceof Error ? `${name} ${cause.name}` : name;
}

/** The first line: what follows may quote the request, with the keys it was signed with. */
function textOf(error: unknown): string {
  const text = error instanceof Error ? error.message || codeOf(error) : errorText(error);
  return text.split("\n", 1)[0]!.slice(0, 300).replace(/\.$/, "");
}

/** The SDK hangs the request and its headers on its errors. */
function withoutRequest(error: unknown, text: string): Error {
  const name = error instanceof Error ? error.name : "Error";
  return Object.assign(new Error(text), { name, stack: `${name}: ${text}` });
}

function advice(error: unknown, text: string): string {
  const code = codeOf(error);
  if (isNoQueue(error)) return "; create the queue, or open the mailbox with create: true";
  if (/Region is missing/.test(text)) return "; set AWS_REGION, or pass region";
  if (/Credentials|Token|Signature|AccessDenied|InvalidClient/i.test(code)) {
    return "; check the credentials, and what they allow";
  }
  if (/ECONNREFUSED|ENOTFOUND|ECONNRESET|ETIMEDOUT|socket|aborted/i.test(text)) {
    return "; is the service within reach? It is tried again with the next call";
  }
  return "";
}
