// The clients whose transactions a mailbox accepts, each with the same few calls.

import { userInfo } from "node:os";
import { sql as raw } from "drizzle-orm";
import { drizzle as drizzlePg } from "drizzle-orm/node-postgres";
import { drizzle as drizzlePostgres } from "drizzle-orm/postgres-js";
import { CompiledQuery, Kysely, PostgresDialect } from "kysely";
import pg from "pg";
import postgres from "postgres";

/** A transaction of a client. */
export interface Transaction {
  /** What the client passes to the code in the transaction. */
  readonly tx: unknown;
  /** Runs a statement in it. */
  run(statement: string): Promise<unknown>;
}

/** A connected client. */
export interface Client extends AsyncDisposable {
  /** What is not a transaction, but easily mistaken for one. */
  readonly outside: unknown;
  /** Commits when `act` resolves, and rolls back when it throws. */
  transaction<T>(act: (transaction: Transaction) => Promise<T>): Promise<T>;
}

/** Connects each client, by its name. */
export const CLIENTS: Readonly<Record<string, (url: string) => Client>> = {
  "postgres.js": (url) => {
    const sql = connect(url);
    return {
      outside: sql,
      transaction: (act) =>
        sql.begin((tx) => {
          return act({ tx, run: async (statement) => await tx.unsafe(statement) });
        }) as Promise<never>,
      [Symbol.asyncDispose]: () => sql.end(),
    };
  },

  "pg, a client": (url) => {
    const client = new pg.Client({ connectionString: withUser(url) });
    const connecting = client.connect();
    return {
      outside: client,
      async transaction(act) {
        await connecting;
        return await begun(client, act);
      },
      [Symbol.asyncDispose]: () => client.end(),
    };
  },

  "pg, a pool": (url) => {
    const pool = new pg.Pool({ connectionString: withUser(url), max: 2 });
    return {
      outside: pool,
      async transaction(act) {
        const client = await pool.connect();
        try {
          return await begun(client, act);
        } finally {
          client.release();
        }
      },
      [Symbol.asyncDispose]: () => pool.end(),
    };
  },

  "Drizzle on postgres.js": (url) => {
    const sql = connect(url);
    const db = drizzlePostgres(sql);
    return {
      outside: db,
      transaction: (act) =>
        db.transaction((tx) => act({ tx, run: (statement) => tx.execute(raw.raw(statement)) })),
      [Symbol.asyncDispose]: () => sql.end(),
    };
  },

  "Drizzle on pg": (url) => {
    const pool = new pg.Pool({ connectionString: withUser(url), max: 2 });
    const db = drizzlePg(pool);
    return {
      outside: db,
      transaction: (act) =>
        db.transaction((tx) => act({ tx, run: (statement) => tx.execute(raw.raw(statement)) })),
      [Symbol.asyncDispose]: () => pool.end(),
    };
  },

  Kysely: (url) => {
    const pool = new pg.Pool({ connectionString: withUser(url), max: 2 });
    const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool }) });
    return {
      outside: db,
      transaction: (act) =>
        db.transaction().execute((tx) => {
          return act({ tx, run: (statement) => tx.executeQuery(CompiledQuery.raw(statement)) });
        }),
      [Symbol.asyncDispose]: () => db.destroy(),
    };
  },
};

function connect(url: string): postgres.Sql {
  return postgres(url, { max: 2, onnotice() {} });
}

/** pg does not take the name of the user from the operating system. */
function withUser(url: string): string {
  const named = new URL(url);
  named.username ||= userInfo().username;
  return named.href;
}

async function begun<T>(
  client: pg.ClientBase,
  act: (transaction: Transaction) => Promise<T>,
): Promise<T> {
  await client.query("begin");
  try {
    const result = await act({ tx: client, run: (statement) => client.query(statement) });
    await client.query("commit");
    return result;
  } catch (error) {
    await client.query("rollback");
    throw error;
  }
}
