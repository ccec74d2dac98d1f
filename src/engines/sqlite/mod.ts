/**
 * Mailboxes in a SQLite file.
 *
 * @module
 */

export {
  betterSqlite3,
  bunSqlite,
  nodeSqlite,
  type SqliteDatabase,
  type SqliteDriver,
  type SqliteStatement,
  type SqliteValue,
} from "./drivers.ts";
export type { Durability } from "./_file.ts";
export { SqliteMailbox, type SqliteMailboxOptions } from "./sqlite_mailbox.ts";
