import type { Delivery } from "../../mailbox/engine.ts";
import { MailboxConnectionError } from "../../mailbox/errors.ts";
import type { SqliteDatabase, SqliteStatement } from "./drivers.ts";
import { APPLICATION_ID, foreignFile } from "./_file_identity.ts";

/**
 * The migrations, in order. Each leads to the next version of the schema; a released one never changes.
 *
 * A message with a `due_at` of 0 is ready. Ready messages are ordered by `seq`, which never changes. Any
 * other `due_at` is the end of a delay or a lease. A leased message has a `nonce`, the random part of its
 * receipt handle. So one index finds the oldest ready message and the next due one, however many messages
 * there are of either kind.
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

/** A message as the file stores it. */
export interface Row {
  readonly seq: number;
  readonly id: string;
  readonly body: string;
  readonly meta: string | null;
  readonly deliveries: number;
  readonly enqueued_at: number;
  readonly checkpoint: string | null;
}

/** A message that was read from the file. */
export class SqliteDelivery implements Delivery<string> {
  readonly seq: number;
  readonly nonce: number;
  readonly id: string;
  readonly body: string;
  readonly meta: string | undefined;
  readonly deliveryCount: number;
  readonly enqueuedAt: number;
  readonly checkpoint: string | undefined;

  /**
   * `row` is the message before the delivery. All deliveries of one receive share a nonce; without a nonce
   * the message was only peeked at.
   */
  constructor(row: Row, nonce?: number) {
    this.seq = row.seq;
    this.nonce = nonce ?? 0;
    this.id = row.id;
    this.body = row.body;
    this.meta = row.meta ?? undefined;
    this.deliveryCount = row.deliveries + (nonce === undefined ? 0 : 1);
    this.enqueuedAt = row.enqueued_at;
    this.checkpoint = row.checkpoint ?? undefined;
  }

  get receiptHandle(): string {
    return `${this.seq}-${this.nonce}`;
  }
}

const COLUMNS = "seq, id, body, meta, deliveries, enqueued_at, checkpoint";

/** Only unexpired leases can settle. */
const HELD = "seq = ? AND nonce = ? AND due_at > ?";

type StatementName =
  | "begin"
  | "commit"
  | "rollback"
  | "send"
  | "isStored"
  | "nextDue"
  | "isAnyDue"
  | "makeDueReady"
  | "oldestReady"
  | "lease"
  | "acknowledge"
  | "extend"
  | "nack"
  | "release"
  | "checkpoint"
  | "peek"
  | "purge"
  | "count"
  | "addToCount"
  | "resetCount"
  | "dataVersion";

const SQL: Readonly<Record<StatementName, string>> = {
  begin: "BEGIN IMMEDIATE",
  commit: "COMMIT",
  rollback: "ROLLBACK",

  send: `INSERT INTO message (queue, due_at, chosen, id, enqueued_at, meta, checkpoint, body)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
  isStored: "SELECT 1 FROM message WHERE queue = ? AND id = ? AND chosen = 1",

  nextDue: "SELECT min(due_at) AS due_at FROM message INDEXED BY line WHERE queue = ?",
  isAnyDue: `SELECT 1 FROM message INDEXED BY line
    WHERE queue = ? AND due_at > 0 AND due_at <= ? LIMIT 1`,
  makeDueReady: `UPDATE message SET due_at = 0, nonce = NULL WHERE seq IN (
      SELECT seq FROM message INDEXED BY line
      WHERE queue = ? AND due_at > 0 AND due_at <= ? ORDER BY due_at, seq LIMIT ?)`,
  oldestReady: `SELECT ${COLUMNS} FROM message INDEXED BY line
    WHERE queue = ? AND due_at = 0 ORDER BY seq LIMIT ?`,
  lease: `UPDATE message INDEXED BY line SET due_at = ?, nonce = ?, deliveries = deliveries + 1
    WHERE queue = ? AND due_at = 0 AND seq <= ?`,

  acknowledge: `DELETE FROM message WHERE ${HELD}`,
  extend: `UPDATE message SET due_at = max(due_at, ?) WHERE ${HELD}`,
  nack: `UPDATE message SET due_at = ?, nonce = NULL, deliveries = deliveries - ? WHERE ${HELD}`,
  release: `UPDATE message SET due_at = 0, nonce = NULL, releases = releases + 1,
      deliveries = deliveries - (releases < ?) WHERE ${HELD}`,
  checkpoint: `UPDATE message SET checkpoint = ? WHERE ${HELD}`,

  peek: `SELECT ${COLUMNS} FROM message WHERE seq IN (
      SELECT seq FROM (SELECT seq FROM message INDEXED BY line
        WHERE queue = ? AND due_at = 0 ORDER BY seq LIMIT ?)
      UNION ALL
      SELECT seq FROM (SELECT seq FROM message INDEXED BY line
        WHERE queue = ? AND due_at > 0 ORDER BY seq LIMIT ?))
    ORDER BY seq LIMIT ?`,
  purge: "DELETE FROM message WHERE queue = ?",

  count: "SELECT size FROM queue WHERE name = ?",
  addToCount: `INSERT INTO queue (name, size) VALUES (?, ?)
    ON CONFLICT (name) DO UPDATE SET size = size + excluded.size`,
  resetCount: "UPDATE queue SET size = 0 WHERE name = ?",

  dataVersion: "PRAGMA data_version",
};

/** All statements, prepared once for each connection. */
export type Statements = Readonly<Record<StatementName, SqliteStatement>>;

/** Prepares all statements. */
export function prepareAll(database: SqliteDatabase): Statements {
  const prepared = Object.entries(SQL).map(([name, sql]) => [name, database.prepare(sql)]);
  return Object.fromEntries(prepared) as Statements;
}
