import type { SqliteDatabase } from "../database.ts";

interface BetterSqlite3Module {
  readonly default: new (path: string) => SqliteDatabase;
}

/** Not a literal: an optional peer need not be there when imports are checked. */
const MODULE: string = "better-sqlite3";

/** For Node 20, which brings nothing of its own. */
export async function betterSqlite3(path: string): Promise<SqliteDatabase> {
  const { default: Database } = await import(MODULE) as BetterSqlite3Module;
  return new Database(path);
}
