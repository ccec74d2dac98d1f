import { MailboxConnectionError } from "../../mailbox/errors.ts";
import type { SqliteDatabase } from "./database.ts";

/** "LCMB" in the file header marks a mailbox file. */
export const APPLICATION_ID = 0x4c43_4d42;

/**
 * The migrations, in order. Each leads to the next version of the schema; a released one never changes.
 *
 * A message with a `due_at` of 0 is ready. Ready messages are ordered by `seq`, which never changes. Any
 * other `due_at` is the end of a delay or a lease; a leased message has a `nonce`. So one index finds the
 * oldest ready message and the next due one, however many messages there are of either kind.
 */
export const MIGRATIONS: readonly string[] = [
  `CREATE TABLE queue (
    name TEXT PRIMARY KEY,
    size INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE message (
    seq INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    due_at REAL NOT NULL,
    nonce INTEGER,
    deliveries INTEGER NOT NULL DEFAULT 0,
    releases INTEGER NOT NULL DEFAULT 0,
    chosen INTEGER NOT NULL,
    id TEXT NOT NULL,
    enqueued_at INTEGER NOT NULL,
    reply_to TEXT,
    checkpoint TEXT,
    body TEXT NOT NULL
  ) STRICT;

  CREATE INDEX line ON message (queue, due_at);
  CREATE UNIQUE INDEX chosen_id ON message (queue, id) WHERE chosen = 1;`,
];

/** Migrates a database in one transaction. Throws for a database of another program, unchanged. */
export function migrate(
  database: SqliteDatabase,
  path: string,
  migrations: readonly string[] = MIGRATIONS,
): void {
  if (check(database, path, migrations.length) === migrations.length) return;
  database.exec("BEGIN IMMEDIATE");
  try {
    // Checks again, because another process may have migrated before the lock.
    const version = check(database, path, migrations.length);
    for (const step of migrations.slice(version)) database.exec(step);
    database.exec(`PRAGMA application_id = ${APPLICATION_ID}`);
    database.exec(`PRAGMA user_version = ${migrations.length}`);
    database.exec("COMMIT");
  } catch (error) {
    database.exec("ROLLBACK");
    throw error;
  }
}

/** Returns the version of the schema; 0 for an empty database. */
function check(database: SqliteDatabase, path: string, newest: number): number {
  const read = (sql: string) => Object.values(database.prepare(sql).get() as object)[0] as number;
  const version = read("PRAGMA user_version");
  if (read("PRAGMA application_id") !== APPLICATION_ID) {
    if (read("SELECT count(*) FROM sqlite_schema") === 0) return 0;
    throw foreignFile(path);
  }
  if (version > newest) {
    throw new MailboxConnectionError(
      `The SQLite file "${path}" has version ${version} of the schema and this package knows ` +
        `${newest}: update the package in this program`,
    );
  }
  return version;
}

/** Returns the error for a file of another program. */
export function foreignFile(path: string): MailboxConnectionError {
  return new MailboxConnectionError(
    `The file "${path}" is not a mailbox file and was not changed: choose another path`,
  );
}
