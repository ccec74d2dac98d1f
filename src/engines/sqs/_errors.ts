import { errorText } from "../../errors.ts";
import { isMailboxError, MailboxConnectionError } from "../../mailbox/errors.ts";

/** Wraps an error of the SDK in a `MailboxConnectionError`. */
export function connectionError(what: string, error: unknown): Error {
  if (isMailboxError(error)) return error;
  const text = textOf(error);
  return new MailboxConnectionError(`SQS failed to ${what}: ${text}${advice(error, text)}`, {
    cause: withoutRequest(error, text),
  });
}

/** Returns true when the queue does not exist. The error has had several names. */
export function isNoQueue(error: unknown): boolean {
  return /QueueDoesNotExist|NonExistentQueue/.test(codeOf(error));
}

/**
 * Returns true when the credentials do not allow the call. Then it is unknown whether the queue exists.
 */
export function isForbidden(error: unknown): boolean {
  return /AccessDenied/.test(codeOf(error));
}

/** Returns true when the queue was purged less than a minute ago. */
export function isPurging(error: unknown): boolean {
  return /PurgeQueueInProgress/.test(codeOf(error));
}

/** Returns true when a retry of a batch entry may succeed. */
export function isTransient(code: string, senderFault: boolean): boolean {
  return !senderFault || /throttl|unavailable|internal|timeout/i.test(code);
}

function codeOf(error: unknown): string {
  const { name = "", cause } = error instanceof Error ? error : new Error();
  return cause instanceof Error ? `${name} ${cause.name}` : name;
}

/** Returns only the first line. The others may quote the request with its signature. */
function textOf(error: unknown): string {
  const text = error instanceof Error ? error.message || codeOf(error) : errorText(error);
  return text.split("\n", 1)[0]!.slice(0, 300).replace(/\.$/, "");
}

/** Copies the error without the request and headers that the SDK attaches. */
function withoutRequest(error: unknown, text: string): Error {
  const name = error instanceof Error ? error.name : "Error";
  return Object.assign(new Error(text), { name, stack: `${name}: ${text}` });
}

function advice(error: unknown, text: string): string {
  const code = codeOf(error);
  if (isNoQueue(error)) return "; create the queue, or open the mailbox with create: true";
  if (/Region is missing/.test(text)) return "; set AWS_REGION, or pass region";
  if (/Credentials|Token|Signature|AccessDenied|InvalidClient/i.test(code)) {
    return "; check the credentials and their permissions";
  }
  if (/ECONNREFUSED|ENOTFOUND|ECONNRESET|ETIMEDOUT|socket|aborted/i.test(text)) {
    return "; check that the service is reachable. The next call tries again";
  }
  return "";
}
