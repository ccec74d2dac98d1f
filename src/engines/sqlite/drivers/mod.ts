import { MailboxConnectionError } from "../../../mailbox/errors.ts";
import type { SqliteDatabase, SqliteDriver } from "../database.ts";
import { betterSqlite3 } from "./better_sqlite3.ts";
import { bunSqlite } from "./bun_sqlite.ts";
import { nodeSqlite } from "./node_sqlite.ts";

/** In the order in which `anyDriver` tries them. Each loads its module when it is called. */
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
