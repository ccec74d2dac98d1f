import type { SqliteDatabase } from "../database.ts";

interface BetterSqlite3Module {
  readonly default: new (path: string) => SqliteDatabase;
}

/** A variable, not a literal, because tools that check imports must not require an optional peer. */
const MODULE: string = "better-sqlite3";

/** Opens a file with `better-sqlite3`. For Node 20, which has no built-in SQLite. */
export async function betterSqlite3(path: string): Promise<SqliteDatabase> {
  const { default: Database } = await import(MODULE) as BetterSqlite3Module;
  return new Database(path);
}
