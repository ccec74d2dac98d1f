/** A value that a mailbox binds to a statement. */
export type SqliteValue = string | number | null;

/** A prepared statement of a driver. */
export interface SqliteStatement {
  /** Runs the statement and returns how many rows it changed. */
  run(...values: SqliteValue[]): { readonly changes: number | bigint };
  /** Runs the statement and returns every row as an object. */
  all(...values: SqliteValue[]): unknown[];
  /** Runs the statement and returns the first row; null or undefined when there is none. */
  get(...values: SqliteValue[]): unknown;
}

/** An open database. Those of `node:sqlite`, `bun:sqlite` and `better-sqlite3` have this shape. */
export interface SqliteDatabase {
  /** Runs statements that return no rows. */
  exec(sql: string): unknown;
  /** Compiles one statement for repeated use. */
  prepare(sql: string): SqliteStatement;
  /** Closes the file. */
  close(): unknown;
}

/**
 * Opens the file at `path` for reading and writing, and creates it if it does not exist.
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
