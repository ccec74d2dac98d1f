import { MailboxConnectionError } from "../../mailbox/errors.ts";

/** Not a literal: a bundler for browsers would refuse it, also in a program without SQLite. */
const MODULE: string = "node:fs";

type Look = () => { readonly dev: bigint; readonly ino: bigint } | undefined;

/**
 * Which file a path led to when it was opened. SQLite goes on with a file that was deleted or renamed,
 * and confirms what nobody will ever find: in WAL mode it does not look.
 */
export class FileIdentity {
  readonly #path: string;
  readonly #look: Look;
  readonly #device: bigint | undefined;
  readonly #inode: bigint | undefined;

  private constructor(path: string, look: Look) {
    this.#path = path;
    this.#look = look;
    const found = look();
    this.#device = found?.dev;
    this.#inode = found?.ino;
  }

  /** The identity of the file at this path; a driver that keeps no file there has none to check. */
  static async of(path: string): Promise<FileIdentity> {
    const { statSync } = await import(MODULE) as typeof import("node:fs");
    const options = { bigint: true, throwIfNoEntry: false } as const;
    return new FileIdentity(path, () => path === "" ? undefined : statSync(path, options));
  }

  /** Throws when the path leads to another file by now, or to none. */
  check(): void {
    if (this.#inode === undefined) return;
    const found = this.#look();
    if (found?.ino === this.#inode && found.dev === this.#device) return;
    const what = found === undefined
      ? "was deleted or renamed while it was open here"
      : "was replaced by another file while it was open here";
    const otherwise = found === undefined ? "begin with an empty one" : "use the new one";
    throw new MailboxConnectionError(
      `The SQLite file "${this.#path}" ${what}: nothing is sent or received any more, because it ` +
        `would be lost. Move the file back to its place, or restart this process to ${otherwise}`,
    );
  }
}
