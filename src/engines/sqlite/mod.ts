/**
 * Mailboxes in a SQLite file.
 *
 * @module
 */

export type { SqliteDatabase, SqliteDriver, SqliteStatement, SqliteValue } from "./database.ts";
export type { Durability } from "./_open_file.ts";
export { betterSqlite3 } from "./drivers/better_sqlite3.ts";
export { bunSqlite } from "./drivers/bun_sqlite.ts";
export { nodeSqlite } from "./drivers/node_sqlite.ts";
export { SqliteMailbox, type SqliteMailboxOptions } from "./sqlite_mailbox.ts";
