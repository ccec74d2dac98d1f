import { MailboxConnectionError } from "../../mailbox/errors.ts";

/** "LCMB" in the file header marks a mailbox file. */
export const APPLICATION_ID = 0x4c43_4d42;

const MAGIC = "SQLite format 3\0";
const APPLICATION_ID_AT = 68;
const HEADER_BYTES = 100;

/** A variable, not a literal, because a bundler for browsers would reject the import. */
const MODULE: string = "node:fs";

function fileSystem(): Promise<typeof import("node:fs")> {
  return import(MODULE);
}

/** Returns the error for a file of another program. */
export function foreignFile(path: string, isDatabase = true): MailboxConnectionError {
  return new MailboxConnectionError(
    `The file "${path}" is not a mailbox file and was not changed: choose another path` +
      (isDatabase
        ? ", or open it with `sharedFile: true` to store messages beside its tables"
        : ""),
  );
}

/**
 * Throws for a file of another program before SQLite opens it: opening a database may complete a crashed
 * transaction and write. An empty or missing file is accepted if its folder exists; with `create` false the
 * file has to exist. With `sharedFile` any database is accepted.
 */
export async function checkFileHeader(
  path: string,
  { create = true, sharedFile = false }: {
    readonly create?: boolean;
    readonly sharedFile?: boolean;
  },
): Promise<void> {
  const header = await readHeader(path);
  if (header === undefined && !create) {
    throw new MailboxConnectionError(
      `The SQLite file "${path}" does not exist any more. Move it back, or open the mailbox again`,
    );
  }
  if (header === undefined || header.byteLength === 0) return;
  const magic = new TextDecoder().decode(header.subarray(0, MAGIC.length));
  if (magic !== MAGIC || header.byteLength < HEADER_BYTES) throw foreignFile(path, false);
  if (sharedFile) return;
  const view = new DataView(header.buffer, header.byteOffset, header.byteLength);
  if (view.getUint32(APPLICATION_ID_AT) !== APPLICATION_ID) throw foreignFile(path);
}

async function readHeader(path: string): Promise<Uint8Array | undefined> {
  const { promises: { open, stat } } = await fileSystem();
  try {
    const file = await open(path, "r");
    try {
      const { buffer, bytesRead } = await file.read(new Uint8Array(HEADER_BYTES), 0, HEADER_BYTES);
      return buffer.subarray(0, bytesRead);
    } finally {
      await file.close();
    }
  } catch (error) {
    if ((error as { readonly code?: string }).code !== "ENOENT") throw error;
    // `stat` reports a missing folder; a driver would only say that it cannot open the file.
    await stat(path.replace(/[^/\\]*$/, "") || ".");
    return undefined;
  }
}

type Stat = (path: string) => { readonly dev: bigint; readonly ino: bigint } | undefined;

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
    const found = stat(path);
    this.#device = found?.dev;
    this.#inode = found?.ino;
  }

  /** Returns the identity of the file at `path`. Without a file (""), `check` accepts everything. */
  static async of(path: string): Promise<FileIdentity> {
    const { statSync } = await fileSystem();
    const options = { bigint: true, throwIfNoEntry: false } as const;
    return new FileIdentity(path, (path) => path === "" ? undefined : statSync(path, options));
  }

  /** Names the file among all that are open at the same time. */
  get key(): string {
    return `${this.#path}:${this.#device}:${this.#inode}`;
  }

  /** Returns true when another path leads to the same file. */
  isAt(path: string): boolean {
    if (this.#inode === undefined) return false;
    const found = this.#stat(path);
    return found?.ino === this.#inode && found.dev === this.#device;
  }

  /** Throws when the path leads to another file or to none. */
  check(): void {
    if (this.#inode === undefined) return;
    const found = this.#stat(this.#path);
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
