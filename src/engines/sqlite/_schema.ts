import { MailboxConnectionError } from "../../mailbox/errors.ts";
import type { SqliteDatabase } from "./drivers.ts";
import { APPLICATION_ID, foreignFile } from "./_file_identity.ts";

/**
 * The `due_at` of a message behind the first one of its key. It is later than any time, so that the searches
 * for ready and for due messages do not meet blocked ones, however many there are.
 */
export const BLOCKED = 1e15;

/** What begins the names of tables and indexes in a file that has tables of another program. */
export const SHARED_PREFIX = "lastcall_";

/**
 * The migrations of a file that belongs to this package, in order. Each leads to the next version of the
 * schema; a released one never changes.
 *
 * A message is ready when its `due_at` is its negative priority, from -9 to 0. Ready messages are ordered by
 * `due_at` and `seq`, which never changes. A positive `due_at` is the end of a delay or a lease, or
 * {@linkcode BLOCKED}. A leased message has a `nonce`, the random part of its receipt handle. So one index
 * finds the next ready message and the next due one, however many messages there are of either kind.
 *
 * The messages of a key that are not delayed by their sender have a `position` in the line of the key. The
 * first one has position 0; all others are blocked. A key without messages has no trace.
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

  // The envelope is one value. A worker of version 0.1 that has the file open can settle its messages, but
  // neither send nor receive, because those statements name the dropped column.
  `ALTER TABLE message ADD COLUMN meta TEXT;
  UPDATE message SET meta = json_object('replyTo', reply_to) WHERE reply_to IS NOT NULL;
  ALTER TABLE message DROP COLUMN reply_to;`,

  // The index has a new name, so that a worker of version 2 that has the file open cannot receive: it would
  // not unblock keys. It can settle its messages.
  `ALTER TABLE queue ADD COLUMN paused INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE message ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE message ADD COLUMN key TEXT;
  ALTER TABLE message ADD COLUMN position INTEGER;
  DROP INDEX line;
  ${indexesOf("")}
  ${memoryOf("")}`,

  // A worker of version 3 that has the file open cannot receive, because its statement names the dropped
  // column: it would neither obey a limit nor count an expired lease. It can settle its messages.
  `${controlOf("")}
  ALTER TABLE queue DROP COLUMN paused;`,
];

/** The migrations of the tables in a file of another program. */
export const SHARED_MIGRATIONS: readonly string[] = [
  `CREATE TABLE ${SHARED_PREFIX}schema (version INTEGER NOT NULL) STRICT;
  INSERT INTO ${SHARED_PREFIX}schema VALUES (0);

  CREATE TABLE ${SHARED_PREFIX}queue (
    name TEXT PRIMARY KEY,
    size INTEGER NOT NULL,
    paused INTEGER NOT NULL DEFAULT 0
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE ${SHARED_PREFIX}message (
    seq INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    due_at REAL NOT NULL,
    nonce INTEGER,
    deliveries INTEGER NOT NULL DEFAULT 0,
    releases INTEGER NOT NULL DEFAULT 0,
    chosen INTEGER NOT NULL,
    id TEXT NOT NULL,
    enqueued_at INTEGER NOT NULL,
    checkpoint TEXT,
    body TEXT NOT NULL,
    meta TEXT,
    priority INTEGER NOT NULL DEFAULT 0,
    key TEXT,
    position INTEGER
  ) STRICT;

  CREATE UNIQUE INDEX ${SHARED_PREFIX}chosen_id ON ${SHARED_PREFIX}message (queue, id)
    WHERE chosen = 1;
  ${indexesOf(SHARED_PREFIX)}
  ${memoryOf(SHARED_PREFIX)}`,

  // The column "paused" stays, unused: SQLite drops none while a view of the program is broken.
  controlOf(SHARED_PREFIX),
];

/** The indexes of version 3, beside that of chosen ids. `_lookup.ts` adds one when it is needed. */
function indexesOf(prefix: string): string {
  return `CREATE INDEX ${prefix}due ON ${prefix}message (queue, due_at);
  CREATE UNIQUE INDEX ${prefix}key_line ON ${prefix}message (queue, key, position)
    WHERE position IS NOT NULL;`;
}

/**
 * Ids that are remembered after their message is gone, and messages that were cancelled in flight. The rowid
 * of a cancelled message is never used again: other processes ask for those after the last that they know.
 */
function memoryOf(prefix: string): string {
  return `CREATE TABLE ${prefix}remembered (
    queue TEXT NOT NULL,
    id TEXT NOT NULL,
    until REAL NOT NULL,
    PRIMARY KEY (queue, id)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX ${prefix}remembered_until ON ${prefix}remembered (until);

  CREATE TABLE ${prefix}cancelled (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    queue TEXT NOT NULL,
    id TEXT NOT NULL,
    at REAL NOT NULL
  ) STRICT;`;
}

/**
 * What version 4 adds: how many leases of a message have expired, the pause and the rate limit of a queue as
 * the JSON of a `ControlState`, and the processes that lease messages. The name of the file that an owner
 * locks ends with its token, and the receipt handles of its deliveries contain its number.
 */
function controlOf(prefix: string): string {
  return `ALTER TABLE ${prefix}message ADD COLUMN expiries INTEGER NOT NULL DEFAULT 0;

  CREATE TABLE ${prefix}control (
    queue TEXT PRIMARY KEY,
    state TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
  INSERT INTO ${prefix}control SELECT name, '{"pausedUntil":null}' FROM ${prefix}queue
    WHERE paused = 1;

  CREATE TABLE ${prefix}owner (
    number INTEGER PRIMARY KEY,
    token TEXT NOT NULL UNIQUE
  ) STRICT;`;
}

/** Migrates a database in one transaction. Throws for a database of another program, unchanged. */
export function migrate(
  database: SqliteDatabase,
  path: string,
  migrations: readonly string[] = MIGRATIONS,
): void {
  const newest = migrations.length;
  apply(database, migrations, () => ownVersion(database, path, newest), () => {
    database.exec(`PRAGMA application_id = ${APPLICATION_ID}`);
    database.exec(`PRAGMA user_version = ${newest}`);
  });
}

/** Migrates the tables in a database of another program, in one transaction. Changes nothing else in it. */
export function migrateShared(
  database: SqliteDatabase,
  path: string,
  migrations: readonly string[] = SHARED_MIGRATIONS,
): void {
  const newest = migrations.length;
  apply(database, migrations, () => sharedVersion(database, path, newest), () => {
    database.exec(`UPDATE ${SHARED_PREFIX}schema SET version = ${newest}`);
  });
}

function apply(
  database: SqliteDatabase,
  migrations: readonly string[],
  versionOf: () => number,
  mark: () => void,
): void {
  if (versionOf() === migrations.length) return;
  database.exec("BEGIN IMMEDIATE");
  try {
    // Checks again, because another process may have migrated before the lock.
    const version = versionOf();
    for (const step of migrations.slice(version)) database.exec(step);
    mark();
    database.exec("COMMIT");
  } catch (error) {
    database.exec("ROLLBACK");
    throw error;
  }
}

/** Returns the version of the schema; 0 for an empty database. */
function ownVersion(database: SqliteDatabase, path: string, newest: number): number {
  if (read(database, "PRAGMA application_id") !== APPLICATION_ID) {
    if (read(database, "SELECT count(*) FROM sqlite_schema") === 0) return 0;
    throw foreignFile(path);
  }
  return checkVersion(path, read(database, "PRAGMA user_version"), newest);
}

/** Returns the version of the tables in a database of another program; 0 when there are none. */
function sharedVersion(database: SqliteDatabase, path: string, newest: number): number {
  if (read(database, "PRAGMA application_id") === APPLICATION_ID) {
    throw new MailboxConnectionError(
      `The file "${path}" is a mailbox file and has no tables of another program: open it without ` +
        "`sharedFile`, or choose the database of your program",
    );
  }
  const found = read(
    database,
    `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = '${SHARED_PREFIX}schema'`,
  );
  if (found === 0) return 0;
  return checkVersion(path, read(database, `SELECT version FROM ${SHARED_PREFIX}schema`), newest);
}

function checkVersion(path: string, version: number, newest: number): number {
  if (version <= newest) return version;
  throw new MailboxConnectionError(
    `The SQLite file "${path}" has version ${version} of the schema and this package knows ` +
      `${newest}: update the package in this program`,
  );
}

function read(database: SqliteDatabase, sql: string): number {
  return Object.values(database.prepare(sql).get() as object)[0] as number;
}
