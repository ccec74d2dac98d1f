/** What can be bound to a statement here. */
export type SqliteValue = string | number | null;

/** A prepared statement, as the common drivers have it. */
export interface SqliteStatement {
  /** Executes it, and tells how many rows it changed. */
  run(...values: SqliteValue[]): { readonly changes: number | bigint };
  /** Executes it, and gives every row as an object. */
  all(...values: SqliteValue[]): unknown[];
  /** Executes it, and gives the first row, or what the driver has for none. */
  get(...values: SqliteValue[]): unknown;
}

/** An open database. Those of `node:sqlite`, `bun:sqlite` and `better-sqlite3` fit as they are. */
export interface SqliteDatabase {
  /** Executes statements that give no rows. */
  exec(sql: string): unknown;
  /** Compiles one statement for repeated use. */
  prepare(sql: string): SqliteStatement;
  /** Closes the file. */
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
