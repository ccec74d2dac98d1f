import { MailboxConnectionError } from "../../mailbox/errors.ts";
import type { SqliteDatabase } from "./database.ts";

/** "LCMB" in the header of the file says that it is one of ours. */
export const APPLICATION_ID = 0x4c43_4d42;

/**
 * Each step leads from one version of the schema to the next; what was released is never changed.
 *
 * A message whose `due_at` is 0 stands in line, and `seq` is its place there for good. Any other
 * `due_at` is when its delay or its lease ends; a lease has a `nonce`. So one index leads to the
 * oldest in line and to the next that falls due, however many messages there are of either kind.
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

/** Brings a database up to date in one transaction. One that is not ours is refused, and unchanged. */
export function migrate(
  database: SqliteDatabase,
  path: string,
  migrations: readonly string[] = MIGRATIONS,
): void {
  if (check(database, path, migrations.length) === migrations.length) return;
  database.exec("BEGIN IMMEDIATE");
  try {
    // Looked at again: somebody else may have been faster.
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

/** The version of the schema; 0 for a database that is still empty. */
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
        `${newest}: update the package here too`,
    );
  }
  return version;
}

/** Says that a file belongs to somebody else. */
export function foreignFile(path: string): MailboxConnectionError {
  return new MailboxConnectionError(
    `The file "${path}" is not a mailbox file and was left as it is: choose another path`,
  );
}
