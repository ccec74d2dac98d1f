import { isMailboxError, MailboxConnectionError } from "../../mailbox/errors.ts";

/** What a client threw, as callers of a mailbox know it. `server` names it without credentials. */
export function connectionError(server: string, what: string, error: unknown): Error {
  if (isMailboxError(error)) return error;
  const text = error instanceof Error && error.message !== "" ? error.message : codeOf(error);
  return new MailboxConnectionError(
    `${server} failed to ${what}: ${text}${ADVICE[codeOf(error)] ?? ""}`,
    { cause: error },
  );
}

/** The server did not answer in time. Whether it did what was asked is not known. */
export function timeoutError(server: string, what: string, ms: number): MailboxConnectionError {
  return new MailboxConnectionError(
    `${server} did not ${what} within ${ms} ms: it is frozen, overloaded or out of reach; raise ` +
      "callTimeoutMs if it is only slow",
  );
}

/** The server gave this statement up for the sake of another: nothing of it has happened. */
export function isConflict(error: unknown): boolean {
  return /^40(P01|001)$/.test(codeOf(error));
}

/** SQLSTATE, or the code of a system error. */
export function codeOf(error: unknown): string {
  return String((error as { readonly code?: unknown } | null)?.code ?? error);
}

const ADVICE: Readonly<Record<string, string>> = {
  "08P01": "; behind a connection pooler pass a client of your own",
  "3D000": "; create the database first",
  "28P01": "; check the password",
  "42501": "; grant this user the right, or let one that has it migrate first",
  "42P07":
    "; the schema holds a table that is not ours, which was left as it is: choose another one",
  "53300": "; lower maxConnections, or raise max_connections of the server",
  "ECONNREFUSED": "; is it running, and is this its address?",
};
