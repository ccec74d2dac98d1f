import { isMailboxError, MailboxConnectionError } from "../../mailbox/errors.ts";

/** True when another connection holds the lock. The drivers agree on the text alone. */
export function isBusy(error: unknown): boolean {
  return error instanceof Error && /database is locked/.test(error.message);
}

/** What a driver threw, as callers of a mailbox know it. */
export function connectionError(path: string, error: unknown): Error {
  if (isMailboxError(error)) return error;
  const text = error instanceof Error ? error.message : String(error);
  return new MailboxConnectionError(`The SQLite file "${path}" failed: ${text}${advice(text)}`, {
    cause: error,
  });
}

function advice(text: string): string {
  if (/database is locked/.test(text)) {
    return "; another connection has held a write transaction for too long: find and end it";
  }
  if (/unable to open|directory does not exist/.test(text)) {
    return "; does its folder exist, and may this process write there?";
  }
  if (/malformed/.test(text)) return "; restore it from a backup, or recover it with sqlite3";
  return "";
}
