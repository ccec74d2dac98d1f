/**
 * What a mailbox needs of a SQLite driver, and the three drivers that it knows.
 *
 * Each driver loads its module when it is called, by a variable instead of a literal: other runtimes and
 * bundlers would try to resolve a literal.
 *
 * @module
 */

import { MailboxConnectionError } from "../../mailbox/errors.ts";

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

const NODE_MODULE: string = "node:sqlite";
const BUN_MODULE: string = "bun:sqlite";
const BETTER_MODULE: string = "better-sqlite3";

/** Opens a file with `node:sqlite`, which Node 22.13 or later, Deno and newer versions of Bun have. */
export async function nodeSqlite(path: string): Promise<SqliteDatabase> {
  const { DatabaseSync } = await import(NODE_MODULE) as typeof import("node:sqlite");
  return new DatabaseSync(path);
}

interface BunStatement extends SqliteStatement {
  finalize(): void;
}

interface BunModule {
  readonly Database: new (path: string) => {
    exec(sql: string): unknown;
    prepare(sql: string): BunStatement;
    close(): void;
  };
}

/** Opens a file with `bun:sqlite`. For versions of Bun without `node:sqlite`, which is as fast. */
export async function bunSqlite(path: string): Promise<SqliteDatabase> {
  const { Database } = await import(BUN_MODULE) as BunModule;
  const database = new Database(path);
  const statements: BunStatement[] = [];
  return {
    exec: (sql) => database.exec(sql),
    prepare(sql) {
      const statement = database.prepare(sql);
      statements.push(statement);
      return statement;
    },
    // A statement that is not finalized keeps the file open until it is garbage-collected.
    close() {
      for (const statement of statements) statement.finalize();
      database.close();
    },
  };
}

/** Opens a file with `better-sqlite3`. For Node 20, which has no built-in SQLite. */
export async function betterSqlite3(path: string): Promise<SqliteDatabase> {
  const { default: Database } = await import(BETTER_MODULE) as {
    readonly default: new (path: string) => SqliteDatabase;
  };
  return new Database(path);
}

/** In the order in which `anyDriver` tries them. */
const DRIVERS: readonly SqliteDriver[] = [nodeSqlite, bunSqlite, betterSqlite3];

/** Opens `path` with the first available driver. */
export async function anyDriver(
  path: string,
  drivers: readonly SqliteDriver[] = DRIVERS,
): Promise<SqliteDatabase> {
  for (const driver of drivers) {
    try {
      return await driver(path);
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
  }
  throw new MailboxConnectionError(
    `No SQLite driver is available to open "${path}": use Node 22.13 or later, Deno or Bun, or ` +
      "`npm install better-sqlite3`",
    { reason: "client_missing" },
  );
}

/** Returns true for the errors of the runtimes about a module that does not exist. */
function isMissing(error: unknown): boolean {
  const { code, message } = error as { readonly code?: unknown; readonly message?: unknown };
  return /^ERR_(MODULE_NOT_FOUND|UNKNOWN_BUILTIN_MODULE|UNSUPPORTED_ESM_URL_SCHEME)$/
    .test(String(code)) || /^(Cannot find|Could not resolve)/.test(String(message));
}
