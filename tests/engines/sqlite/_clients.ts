// The clients whose transactions a mailbox takes part in, each with the same few calls.

import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import type { SqliteDatabase } from "../../../src/engines/sqlite/mod.ts";
import { bunSqlite, nodeSqlite } from "../../../src/engines/sqlite/mod.ts";
import { runtimeName } from "../../signals/_child.ts";

/** A client that has the database of a program open, with a table `effect (n)`. */
export interface OpenClient {
  /**
   * Runs `act` in a transaction, and rolls it back if `act` throws. Clients with synchronous transactions do
   * not wait for the promises of `act`.
   */
  transact(act: (transaction: unknown) => unknown): Promise<void>;
  /** Inserts a row in the transaction. */
  insert(transaction: unknown, n: number): unknown;
  close(): unknown;
}

/** A kind of client. */
export interface Client {
  readonly name: string;
  /** Why this runtime cannot use it, or false. */
  readonly skip: string | false;
  /** True when a transaction is a function that must not return a promise. */
  readonly synchronous: boolean;
  open(path: string): Promise<OpenClient>;
}

const TABLE = "CREATE TABLE IF NOT EXISTS effect (n INTEGER NOT NULL)";
const INSERT = "INSERT INTO effect (n) VALUES (?)";

/** Returns the rows of the table, in order. */
export async function effects(path: string): Promise<number[]> {
  const database = await nodeSqlite(path);
  const rows = database.prepare("SELECT n FROM effect ORDER BY n").all() as { n: number }[];
  database.close();
  return rows.map(({ n }) => n);
}

/** Begins and ends transactions by statements. `act` may use promises. */
export async function byStatements(database: SqliteDatabase): Promise<OpenClient> {
  database.exec("PRAGMA busy_timeout = 5000");
  database.exec(TABLE);
  const insert = database.prepare(INSERT);
  return await Promise.resolve({
    async transact(act) {
      database.exec("BEGIN IMMEDIATE");
      try {
        await act(database);
        database.exec("COMMIT");
      } catch (error) {
        database.exec("ROLLBACK");
        throw error;
      }
    },
    insert: (_, n) => insert.run(n),
    close: () => database.close(),
  });
}

/** The databases of bun:sqlite and better-sqlite3 have transaction functions. */
interface WithFunctions extends SqliteDatabase {
  transaction(act: () => void): { immediate(): void };
}

function byFunctions(database: WithFunctions): OpenClient {
  database.exec("PRAGMA busy_timeout = 5000");
  database.exec(TABLE);
  return {
    // deno-lint-ignore require-await -- it throws in a promise, as the others
    async transact(act) {
      database.transaction(() => void act(database)).immediate();
    },
    insert: (_, n) => database.prepare(INSERT).run(n),
    close: () => database.close(),
  };
}

interface DrizzleTransaction {
  insert(table: unknown): { values(row: { n: number }): { run(): void } };
}

async function byDrizzle(database: SqliteDatabase, module: string): Promise<OpenClient> {
  database.exec("PRAGMA busy_timeout = 5000");
  database.exec(TABLE);
  const { drizzle } = await import(module);
  const { integer, sqliteTable } = await import("drizzle-orm/sqlite-core");
  const effect = sqliteTable("effect", { n: integer().notNull() });
  const drizzled = drizzle({ client: database });
  return {
    // deno-lint-ignore require-await -- it throws in a promise, as the others
    async transact(act) {
      drizzled.transaction((tx: unknown) => void act(tx), { behavior: "immediate" });
    },
    insert: (tx, n) => (tx as DrizzleTransaction).insert(effect).values({ n }).run(),
    close: () => database.close(),
  };
}

/** Kysely asks each statement whether it returns rows, as those of better-sqlite3 tell. */
function forKysely(database: SqliteDatabase) {
  return {
    close: () => void database.close(),
    prepare(sql: string) {
      const statement = database.prepare(sql);
      return {
        reader: /^\s*(select|pragma)/i.test(sql),
        all: (values: readonly never[]) => statement.all(...values),
        run: (values: readonly never[]) => ({ lastInsertRowid: 0, ...statement.run(...values) }),
        iterate: (values: readonly never[]) => statement.all(...values)[Symbol.iterator](),
      };
    },
  };
}

interface Tables {
  readonly effect: { readonly n: number };
}

async function byKysely(database: SqliteDatabase): Promise<OpenClient> {
  const { CamelCasePlugin, Kysely, SqliteDialect } = await import("kysely");
  database.exec("PRAGMA busy_timeout = 5000");
  database.exec(TABLE);
  const dialect = new SqliteDialect({ database: forKysely(database) });
  const kysely = new Kysely<Tables>({ dialect, plugins: [new CamelCasePlugin()] });
  type KyselyTransaction = Parameters<
    Parameters<ReturnType<typeof kysely.transaction>["execute"]>[0]
  >[0];
  return {
    transact: (act) => kysely.transaction().execute(async (tx) => void await act(tx)),
    insert: (tx, n) => (tx as KyselyTransaction).insertInto("effect").values({ n }).execute(),
    close: () => kysely.destroy(),
  };
}

/** A better-sqlite3 that loads here, from the packages of the benchmarks; undefined when there is none. */
function betterSqlite3(): (new (path: string) => WithFunctions) | undefined {
  if (runtimeName !== "node") return undefined;
  const peers = fileURLToPath(new URL("../../../bench/peers/package.json", import.meta.url));
  try {
    const Database = createRequire(peers)("better-sqlite3");
    new Database(":memory:").close();
    return Database;
  } catch {
    return undefined; // not installed, or built for another version of Node
  }
}

const Better = betterSqlite3();
const noBetter = Better === undefined
  ? "bench/peers has no better-sqlite3 for this runtime"
  : false;
const noBun = runtimeName === "bun" ? false : "only Bun has bun:sqlite";

async function bunDatabase(path: string): Promise<WithFunctions> {
  const module: string = "bun:sqlite";
  const { Database } = await import(module);
  return new Database(path);
}

/** All of them. */
export const clients: readonly Client[] = [
  {
    name: "node:sqlite",
    skip: false,
    synchronous: false,
    open: async (path) => await byStatements(await nodeSqlite(path)),
  },
  {
    name: "the driver for bun:sqlite",
    skip: noBun,
    synchronous: false,
    open: async (path) => await byStatements(await bunSqlite(path)),
  },
  {
    name: "bun:sqlite",
    skip: noBun,
    synchronous: true,
    open: async (path) => byFunctions(await bunDatabase(path)),
  },
  {
    name: "better-sqlite3",
    skip: noBetter,
    synchronous: true,
    open: (path) => Promise.resolve(byFunctions(new Better!(path))),
  },
  {
    name: "Drizzle on bun:sqlite",
    skip: noBun,
    synchronous: true,
    open: async (path) => await byDrizzle(await bunDatabase(path), "drizzle-orm/bun-sqlite"),
  },
  {
    name: "Kysely",
    skip: false,
    synchronous: false,
    open: async (path) => await byKysely(await nodeSqlite(path)),
  },
];
