import type { SqliteDatabase } from "../database.ts";

/** What Node from 22.13 on, Deno and newer versions of Bun bring along. */
export async function nodeSqlite(path: string): Promise<SqliteDatabase> {
  const { DatabaseSync } = await import("node:sqlite");
  return new DatabaseSync(path);
}
