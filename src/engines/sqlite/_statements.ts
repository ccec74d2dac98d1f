import type { SqliteDatabase, SqliteStatement } from "./database.ts";

/** All statements, prepared once for each connection. */
export interface Statements {
  readonly begin: SqliteStatement;
  readonly commit: SqliteStatement;
  readonly rollback: SqliteStatement;
  readonly size: SqliteStatement;
  readonly resize: SqliteStatement;
  readonly insert: SqliteStatement;
  readonly isThere: SqliteStatement;
  readonly firstDue: SqliteStatement;
  readonly isAnyDue: SqliteStatement;
  readonly surface: SqliteStatement;
  readonly front: SqliteStatement;
  readonly lease: SqliteStatement;
  readonly remove: SqliteStatement;
  readonly extend: SqliteStatement;
  readonly retry: SqliteStatement;
  readonly release: SqliteStatement;
  readonly checkpoint: SqliteStatement;
  readonly peek: SqliteStatement;
  readonly purge: SqliteStatement;
  readonly empty: SqliteStatement;
  readonly dataVersion: SqliteStatement;
}

/** Only unexpired leases can settle. */
const HELD = "seq = ? AND nonce = ? AND due_at > ?";

const COLUMNS = "seq, id, body, deliveries, enqueued_at, reply_to, checkpoint";

const SQL: Readonly<Record<keyof Statements, string>> = {
  begin: "BEGIN IMMEDIATE",
  commit: "COMMIT",
  rollback: "ROLLBACK",

  size: "SELECT size FROM queue WHERE name = ?",
  resize: `INSERT INTO queue (name, size) VALUES (?, ?)
    ON CONFLICT (name) DO UPDATE SET size = size + excluded.size`,

  insert: `INSERT INTO message (queue, due_at, chosen, id, enqueued_at, reply_to, checkpoint, body)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
  isThere: "SELECT 1 FROM message WHERE queue = ? AND id = ? AND chosen = 1",

  firstDue: "SELECT min(due_at) AS due_at FROM message INDEXED BY line WHERE queue = ?",
  isAnyDue: `SELECT 1 FROM message INDEXED BY line
    WHERE queue = ? AND due_at > 0 AND due_at <= ? LIMIT 1`,
  surface: `UPDATE message SET due_at = 0, nonce = NULL WHERE seq IN (
      SELECT seq FROM message INDEXED BY line
      WHERE queue = ? AND due_at > 0 AND due_at <= ? ORDER BY due_at, seq LIMIT ?)`,
  front: `SELECT ${COLUMNS} FROM message INDEXED BY line
    WHERE queue = ? AND due_at = 0 ORDER BY seq LIMIT ?`,
  lease: `UPDATE message INDEXED BY line SET due_at = ?, nonce = ?, deliveries = deliveries + 1
    WHERE queue = ? AND due_at = 0 AND seq <= ?`,

  remove: `DELETE FROM message WHERE ${HELD}`,
  extend: `UPDATE message SET due_at = max(due_at, ?) WHERE ${HELD}`,
  retry: `UPDATE message SET due_at = ?, nonce = NULL, deliveries = deliveries - ? WHERE ${HELD}`,
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
  empty: "UPDATE queue SET size = 0 WHERE name = ?",

  dataVersion: "PRAGMA data_version",
};

/** Prepares all statements. */
export function prepareAll(database: SqliteDatabase): Statements {
  const prepared = Object.entries(SQL).map(([name, sql]) => [name, database.prepare(sql)]);
  return Object.fromEntries(prepared) as unknown as Statements;
}
