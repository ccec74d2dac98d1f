import type { SqliteDatabase } from "../database.ts";

/** Not a literal: a bundler for browsers would refuse it, also in a program without SQLite. */
const MODULE: string = "node:sqlite";

/** What Node from 22.13 on, Deno and newer versions of Bun bring along. */
export async function nodeSqlite(path: string): Promise<SqliteDatabase> {
  const { DatabaseSync } = await import(MODULE) as typeof import("node:sqlite");
  return new DatabaseSync(path);
}
