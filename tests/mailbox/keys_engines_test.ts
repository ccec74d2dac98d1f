// The model on other engines: keys, priorities, ids, cancels and pauses in random histories. Servers have
// clocks of their own, so no time passes in their histories. SQLite has a test of its own.

import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import * as fc from "fast-check";
import { type Clock, systemClock } from "../../src/clock.ts";
import { DenoKvEngine } from "../../src/engines/deno_kv/deno_kv_engine.ts";
import { Store } from "../../src/engines/deno_kv/_store.ts";
import { PostgresEngine } from "../../src/engines/postgres/postgres_engine.ts";
import { openPostgresLink } from "../../src/engines/postgres/postgres_link.ts";
import { silentLog } from "../../src/log.ts";
import { jsonCodec } from "../../src/mailbox/codec.ts";
import type { Engine } from "../../src/mailbox/engine.ts";
import { systemRandom } from "../../src/random.ts";
import { gate as denoKv, openStore } from "../engines/deno_kv/_kv.ts";
import { observer, options as postgres, ownSchema, url } from "../engines/postgres/_shared.ts";
import { cleanUp, gate as redis, look, openEngine, uniqueName } from "../engines/redis/_redis.ts";
import { histories, timelessHistories } from "./_commands.ts";
import { History } from "./_history.ts";
import { seed } from "../_seed.ts";

/** Runs each history on a queue of its own, and drops it. */
async function holds(engine: Engine<string>, prefix: string): Promise<void> {
  let queues = 0;
  const codec = jsonCodec();
  const property = fc.asyncProperty(timelessHistories, async (commands) => {
    const name = `${prefix}.${++queues}`;
    const queue = engine.queue!(name);
    await new History(() => queue, { codec, name, manualClock: false }).run(commands);
    await queue.drop!();
  });
  // Shrinking takes minutes on a server. To shrink, replay the seed without `endOnFailure`.
  await fc.assert(property, { numRuns: 30, seed, endOnFailure: true });
}

/** The time of a clock that a test moves, with real timers for the limits of calls. */
function withRealTimers(clock: Clock): Clock {
  return {
    now: () => clock.now(),
    monotonic: () => clock.monotonic(),
    sleep: (ms, options) => systemClock.sleep(ms, options),
    schedule: (ms, task) => systemClock.schedule(ms, task),
  };
}

describe("an engine answers random histories as the model does", () => {
  it(`Redis answers random histories as the model does (seed ${seed})`, redis, async () => {
    const name = uniqueName();
    const engine = await openEngine(name);
    try {
      await holds(engine, name);
      await using behind = look();
      const left = await behind.redis.keys(`*${name}.*`);
      const times = await Promise.all(left.map((key) => behind.redis.ttl(key)));
      assertEquals(left.filter((_, i) => times[i] === -1), [], "a dropped queue leaves nothing");
    } finally {
      await engine.close();
      await cleanUp(name);
    }
  });

  const schema = ownSchema();
  it(`PostgreSQL answers random histories as the model does (seed ${seed})`, postgres, async () => {
    const shared = { callTimeoutMs: 5_000, clock: systemClock };
    const target = { ...shared, target: url!, schema, maxConnections: 2 };
    const link = await openPostgresLink(target, true, silentLog);
    const engine = new PostgresEngine("orders", link, {
      ...shared,
      maxSize: Infinity,
      pollIntervalMs: 5_000,
      random: systemRandom,
      log: silentLog,
    });
    const sql = observer();
    try {
      await holds(engine, "orders");
      const [row] = await sql`select count(*)::int as left from ${sql(schema)}.messages`;
      assertEquals(row!["left"], 0, "a dropped queue leaves nothing");
    } finally {
      await engine.close();
      await sql.end();
    }
  });

  it(`Deno KV answers random histories as the model does (seed ${seed})`, denoKv, async () => {
    const codec = jsonCodec();
    const property = fc.asyncProperty(histories, async (commands) => {
      const kv = await openStore(":memory:");
      const shared = { callTimeoutMs: 5_000, ownsKv: true, random: systemRandom, log: silentLog };
      const open = (clock: Clock) => {
        const store = new Store(kv, { ...shared, clock: withRealTimers(clock) });
        return new DenoKvEngine("orders", { store, maxSize: Infinity, pollIntervalMs: 600_000 });
      };
      await new History(open, { codec }).run(commands);
      kv.close();
    });
    await fc.assert(property, { numRuns: 50, seed, endOnFailure: true });
  });
});
