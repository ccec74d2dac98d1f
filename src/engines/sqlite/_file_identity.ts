import { MailboxConnectionError } from "../../mailbox/errors.ts";

/** A variable, not a literal, because a bundler for browsers would reject the import. */
const MODULE: string = "node:fs";

type Stat = () => { readonly dev: bigint; readonly ino: bigint } | undefined;

/**
 * Detects that a file was deleted, renamed or replaced. In WAL mode SQLite does not check this: it keeps
 * using the old file and confirms changes that are lost.
 */
export class FileIdentity {
  readonly #path: string;
  readonly #stat: Stat;
  readonly #device: bigint | undefined;
  readonly #inode: bigint | undefined;

  private constructor(path: string, stat: Stat) {
    this.#path = path;
    this.#stat = stat;
    const found = stat();
    this.#device = found?.dev;
    this.#inode = found?.ino;
  }

  /** Returns the identity of the file at `path`. Without a file (""), `check` accepts everything. */
  static async of(path: string): Promise<FileIdentity> {
    const { statSync } = await import(MODULE) as typeof import("node:fs");
    const options = { bigint: true, throwIfNoEntry: false } as const;
    return new FileIdentity(path, () => path === "" ? undefined : statSync(path, options));
  }

  /** Throws when the path leads to another file or to none. */
  check(): void {
    if (this.#inode === undefined) return;
    const found = this.#stat();
    if (found?.ino === this.#inode && found.dev === this.#device) return;
    const problem = found === undefined
      ? "was deleted or renamed while this process had it open"
      : "was replaced by another file while this process had it open";
    const restartTo = found === undefined ? "start with an empty one" : "use the new one";
    throw new MailboxConnectionError(
      `The SQLite file "${this.#path}" ${problem}. All calls fail, because their changes would be ` +
        `lost. Move the file back to its place, or restart this process to ${restartTo}`,
    );
  }
}
