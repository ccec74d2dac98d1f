// The servers of the benchmarks: the one that the environment names, the one on the default port of this
// machine, or a private one that ends with the part.

import process from "node:process";
import { Redis } from "ioredis";
import postgres from "postgres";
import { findServer, missing, redis } from "../tests/engines/_servers.ts";
import { privateOptions, PrivatePostgres } from "../tests/engines/postgres/_private.ts";
import type { Part } from "./_figures.ts";

/** A server to measure on. */
export interface BenchServer extends AsyncDisposable {
  readonly url: string;
}

/** Returns a Redis server, or why there is none. Disposing it deletes the keys of the benchmarks. */
export async function takeRedis(): Promise<BenchServer | { readonly missing: string }> {
  const server = await findServer(redis);
  if (server === undefined) return { missing: missing(redis) };
  return {
    url: server.url,
    async [Symbol.asyncDispose]() {
      await removeLeftovers(server.url);
    },
  };
}

/** Deletes the keys that a purge does not delete, such as the last number of a mailbox. */
async function removeLeftovers(url: string): Promise<void> {
  const client = new Redis(url);
  for (const pattern of ["{lastcall:bench_*", "{lastcall.board:bench_*", "bull:bench_*"]) {
    for await (const keys of client.scanStream({ match: pattern, count: 1_000 })) {
      if (keys.length > 0) await client.unlink(...keys as string[]);
    }
  }
  client.disconnect();
}

/** Returns a PostgreSQL server, or why there is none. */
export async function takePostgres(): Promise<BenchServer | { readonly missing: string }> {
  const named = process.env["POSTGRES_URL"];
  const usual = ["postgres@", ""].map((user) => `postgres://${user}127.0.0.1:5432/test`);
  for (const url of named ? [named] : usual) {
    if (await accepts(url)) return { url, [Symbol.asyncDispose]: () => Promise.resolve() };
  }
  if (privateOptions.skip !== false) return { missing: privateOptions.skip };
  return await PrivatePostgres.start();
}

async function accepts(url: string): Promise<boolean> {
  const sql = postgres(url, { max: 1, connect_timeout: 5 });
  try {
    await sql`select 1`;
    return true;
  } catch {
    return false;
  } finally {
    await sql.end({ timeout: 1 });
  }
}

/** Returns a part that could not be measured. */
export function leftOut(title: string, why: string): Part {
  return { title, table: [], goals: [], notes: [`left out: ${why}`] };
}
