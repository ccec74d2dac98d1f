import { isMailboxError, MailboxConnectionError } from "../../mailbox/errors.ts";

/** Converts an error of the client to a `MailboxConnectionError`. `server` contains no credentials. */
export function connectionError(server: string, action: string, error: unknown): Error {
  if (isMailboxError(error)) return error;
  const text = error instanceof Error && error.message !== "" ? error.message : codeOf(error);
  return new MailboxConnectionError(
    `${server} failed to ${action}: ${text}${ADVICE[codeOf(error)] ?? ""}`,
    { cause: error },
  );
}

/** Returns the error of a call that timed out. The server may still have run it. */
export function timeoutError(server: string, action: string, ms: number): MailboxConnectionError {
  return new MailboxConnectionError(
    `${server} did not ${action} within ${ms} ms: it is frozen, overloaded or unreachable. Check the ` +
      "server, or raise callTimeoutMs if it is only slow",
  );
}

/** Returns true when the server aborted and rolled back the statement because of a conflict. */
export function isConflict(error: unknown): boolean {
  return /^40(P01|001)$/.test(codeOf(error));
}

/** Returns the SQLSTATE, or the code of a system error. */
export function codeOf(error: unknown): string {
  return String((error as { readonly code?: unknown } | null)?.code ?? error);
}

const ADVICE: Readonly<Record<string, string>> = {
  "08P01": ". Behind a connection pooler, pass your own client instead of a URL",
  "3D000": ". Create the database first",
  "28P01": ". Check the password",
  "42501": ". Grant the permission to this user, or let a user that has it migrate first",
  "42P07":
    ". The schema contains a table of another program, which was not changed: choose another one",
  "53300": ". Lower maxConnections, or raise max_connections of the server",
  "ECONNREFUSED": ". Check that the server runs and that the address is correct",
};
