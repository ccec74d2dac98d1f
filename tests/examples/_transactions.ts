import { userInfo } from "node:os";
import { assertStringIncludes } from "@std/assert";
import * as postgres from "../engines/postgres/_shared.ts";
import { runtimeName } from "../signals/_child.ts";
import { ended, everywhere, type Host, start } from "./_example.ts";

const ON_POSTGRES = "19_transactions_postgres";
const ON_SQLITE = "20_transactions_sqlite";

/** Each order is packed once, although its first handler failed after it had acknowledged. */
const PACKED = "2 parcels, 1 retry";

/** Messages in transactions of the caller, one example for each client. */
export function transactions(it: Host): void {
  for (const client of ["postgres_js", "pg", "drizzle", "kysely"]) {
    const schema = postgres.ownSchema();
    it(`19: ${client} commits rows and messages together`, postgres.options, async () => {
      // Unlike the others, `pg` does not ask the system for a name that the URL does not have.
      const user = new URL(postgres.url!).username || userInfo().username;
      const env = { DATABASE_URL: postgres.url!, PGUSER: user };
      await using shop = start(`${ON_POSTGRES}/${client}`, { args: [schema], env });
      assertStringIncludes(await ended(shop), PACKED);
    });
  }

  const bunOnly = { skip: runtimeName === "bun" ? false as const : "only Bun has bun:sqlite" };
  const clients = [
    ["node_sqlite", everywhere],
    ["bun_sqlite", bunOnly],
    ["better_sqlite3", { skip: withoutBetterSqlite3 }],
  ] as const;
  for (const [client, gate] of clients) {
    it(`20: ${client} commits rows and messages together`, gate, async () => {
      await using shop = start(`${ON_SQLITE}/${client}`);
      assertStringIncludes(await ended(shop), PACKED);
    });
  }
}

/** Why the example of better-sqlite3 cannot run, if it cannot. */
const withoutBetterSqlite3: string | false = await betterSqlite3IsMissing();

async function betterSqlite3IsMissing(): Promise<string | false> {
  if (runtimeName !== "node") return "better-sqlite3 works on Node only";
  const name = "better-sqlite3";
  try {
    const { default: Database } = await import(name);
    new Database(":memory:").close();
    return false;
  } catch {
    return "better-sqlite3 is not installed";
  }
}
