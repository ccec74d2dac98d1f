import { missingPackages } from "../../errors.ts";
import { MailboxConnectionError } from "../../mailbox/errors.ts";

/**
 * Loads the client of an engine, an optional package. `user` is the subject of the error when it is missing,
 * such as `A mailbox on Redis`.
 *
 * Pass `() => import(MODULE)` with a constant `MODULE: string` in the same file: JSR would make a literal
 * name a dependency of every user, and the npm build makes the name visible to bundlers.
 */
export async function loadClient<T>(
  user: string,
  name: string,
  load: () => Promise<unknown>,
): Promise<T> {
  try {
    return await load() as T;
  } catch (error) {
    throw new MailboxConnectionError(`${missingPackages(user, [name])}, or pass a client`, {
      cause: error,
      reason: "client_missing",
    });
  }
}

/**
 * Returns a URL for errors and logs: without user, password and parameters. Of a URL whose password is not
 * encoded, so that its end is uncertain, it returns the scheme only.
 */
export function redactUrl(url: string): string {
  const [, scheme = "", authority = "", rest = ""] =
    /^([a-z][a-z0-9+.-]*:\/\/)?([^/?#]*)(.*)$/is.exec(url) ?? [];
  if (rest.includes("@")) return `${scheme}…`;
  return scheme + authority.replace(/^.*@/s, "") + rest.replace(/[?#].*$/s, "");
}
