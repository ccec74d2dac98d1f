/** What can be bound to a statement here. */
export type SqliteValue = string | number | null;

/** A prepared statement, as the common drivers have it. */
export interface SqliteStatement {
  run(...values: SqliteValue[]): { readonly changes: number | bigint };
  all(...values: SqliteValue[]): unknown[];
  get(...values: SqliteValue[]): unknown;
}

/** An open database. Those of `node:sqlite`, `bun:sqlite` and `better-sqlite3` fit as they are. */
export interface SqliteDatabase {
  exec(sql: string): unknown;
  prepare(sql: string): SqliteStatement;
  close(): unknown;
}

/**
 * Opens the file at `path` for reading and writing, and makes it if it is not there.
 *
 * @example
 * ```ts ignore
 * import Database from "better-sqlite3";
 * import { SqliteMailbox } from "@lastcall/lastcall/engines/sqlite";
 *
 * await SqliteMailbox.open("./jobs.db", { driver: (path) => new Database(path) });
 * ```
 */
export type SqliteDriver = (path: string) => SqliteDatabase | Promise<SqliteDatabase>;
