import type { SqliteDatabase } from "../database.ts";

/** A variable, not a literal, because a bundler for browsers would reject the import. */
const MODULE: string = "node:sqlite";

/** Opens a file with `node:sqlite`, which Node 22.13 or later, Deno and newer versions of Bun have. */
export async function nodeSqlite(path: string): Promise<SqliteDatabase> {
  const { DatabaseSync } = await import(MODULE) as typeof import("node:sqlite");
  return new DatabaseSync(path);
}
