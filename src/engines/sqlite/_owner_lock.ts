import { errorText } from "../../errors.ts";
import type { SqliteDatabase, SqliteDriver } from "./drivers.ts";
import { FileIdentity } from "./_file_identity.ts";

/** A variable, not a literal, because a bundler for browsers would reject the import. */
const MODULE: string = "node:fs/promises";

function fileSystem(): Promise<typeof import("node:fs/promises")> {
  return import(MODULE);
}

/** Returns the path of the file that an owner locks, beside the mailbox file. */
export function lockPath(mailboxFile: string, token: string): string {
  return `${mailboxFile}-owner-${token}`;
}

/**
 * A lock that the operating system releases when this process ends, however it ends. Runtimes have no function
 * to lock a file, and SQLite has: this is an empty database in an exclusive transaction that never ends.
 *
 * POSIX releases the locks of a process on a file when the process closes the file anywhere. So a process must
 * not open its own lock file a second time. Threads may, if they use the same SQLite library, which prevents
 * the release.
 */
export class OwnerLock {
  readonly #path: string;
  readonly #database: SqliteDatabase;
  readonly #identity: FileIdentity;
  #refusal = "the file was removed";

  private constructor(path: string, database: SqliteDatabase, identity: FileIdentity) {
    this.#path = path;
    this.#database = database;
    this.#identity = identity;
  }

  /** Creates the file, not locked yet. */
  static async create(path: string, driver: SqliteDriver): Promise<OwnerLock> {
    const database = await driver(path);
    try {
      return new OwnerLock(path, database, await FileIdentity.of(path));
    } catch (error) {
      database.close();
      throw error;
    }
  }

  /** Why the last `lock` failed. */
  get refusal(): string {
    return this.#refusal;
  }

  /**
   * Locks the file. Returns false when another process has locked it, or has removed it as an abandoned one
   * before it was locked. Then `refusal` tells why. Never throws.
   */
  lock(): boolean {
    try {
      // A driver of the caller may turn on WAL mode, in which the lock would be in another file.
      this.#database.exec("PRAGMA busy_timeout = 0; PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE");
      return this.#identity.isAt(this.#path);
    } catch (error) {
      this.#refusal = errorText(error);
      return false;
    }
  }

  /** Releases the lock and removes the file. */
  async release(): Promise<void> {
    this.#database.close();
    await remove(this.#path);
  }
}

/**
 * Removes a lock file that no process locks. Returns false when one does, and when it cannot be told, as for
 * the file of another user.
 */
export async function removeIfAbandoned(path: string, driver: SqliteDriver): Promise<boolean> {
  let database: SqliteDatabase | undefined;
  try {
    database = await driver(path);
    database.exec("PRAGMA busy_timeout = 0; PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE");
    // While it is locked: a process that has created the file and locks it next must notice.
    await remove(path);
    return true;
  } catch {
    return false;
  } finally {
    database?.close();
  }
}

/** Returns the tokens of all lock files beside a mailbox file. */
export async function lockTokens(mailboxFile: string): Promise<string[]> {
  const folder = mailboxFile.replace(/[^/\\]*$/, "");
  const prefix = lockPath(mailboxFile.slice(folder.length), "");
  const names = await (await fileSystem()).readdir(folder || ".");
  return names
    .filter((name) => name.startsWith(prefix))
    .map((name) => name.slice(prefix.length))
    .filter((token) => TOKEN.test(token));
}

const TOKEN = /^[0-9a-f]{8}$/;

/** Removes a file, if this process can. */
async function remove(path: string): Promise<void> {
  await (await fileSystem()).rm(path, { force: true }).catch(() => {});
}
