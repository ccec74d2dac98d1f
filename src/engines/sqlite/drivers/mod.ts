import { MailboxConnectionError } from "../../../mailbox/errors.ts";
import type { SqliteDatabase, SqliteDriver } from "../database.ts";
import { betterSqlite3 } from "./better_sqlite3.ts";
import { bunSqlite } from "./bun_sqlite.ts";
import { nodeSqlite } from "./node_sqlite.ts";

/** In the order in which they are tried. Each loads its module only now. */
const DRIVERS: readonly SqliteDriver[] = [nodeSqlite, bunSqlite, betterSqlite3];

/** Opens `path` with the first driver that is there. */
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
    `No SQLite driver is there to open "${path}": use Node 22.13 or later, Deno or Bun, or ` +
      "`npm install better-sqlite3`",
    { reason: "client_missing" },
  );
}

/** How the runtimes say that they cannot import something. */
function isMissing(error: unknown): boolean {
  const { code, message } = error as { readonly code?: unknown; readonly message?: unknown };
  return /^ERR_(MODULE_NOT_FOUND|UNKNOWN_BUILTIN_MODULE|UNSUPPORTED_ESM_URL_SCHEME)$/
    .test(String(code)) || /^(Cannot find|Could not resolve)/.test(String(message));
}
