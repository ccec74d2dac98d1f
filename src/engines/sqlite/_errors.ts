import { errorText } from "../../errors.ts";
import { isMailboxError, MailboxConnectionError } from "../../mailbox/errors.ts";

/** Returns true when another connection holds the lock. Drivers agree on the text of this error only. */
export function isBusy(error: unknown): boolean {
  return error instanceof Error && /database is locked/.test(error.message);
}

/** Converts an error of the driver to a `MailboxConnectionError`. */
export function connectionError(path: string, error: unknown): Error {
  if (isMailboxError(error)) return error;
  const text = error instanceof Error ? error.message : errorText(error);
  return new MailboxConnectionError(`The SQLite file "${path}" failed: ${text}${advice(text)}`, {
    cause: error,
  });
}

/** What to do about an error, by its text: drivers and runtimes agree on the text only. */
const ADVICE: readonly (readonly [text: RegExp, advice: string])[] = [
  [
    /database is locked/,
    "another connection has held a write transaction for too long; find and end it",
  ],
  [
    /EACCES|EPERM|unable to open/,
    "give this process the right to read and write the file and its folder",
  ],
  [/disk is full/, "free some space on its disk; the change was rolled back"],
  [/readonly/, "give this process the right to write the file and its folder"],
  [/EISDIR/, "it is a folder; name a file"],
  [/ENOTDIR/, "a part of its path is a file and not a folder; choose another path"],
  [/ENOENT|directory does not exist/, "create the folder first"],
  [/malformed/, "restore it from a backup, or recover it with sqlite3"],
];

function advice(text: string): string {
  const [, found] = ADVICE.find(([pattern]) => pattern.test(text)) ?? [];
  return found === undefined ? "" : `: ${found}`;
}
