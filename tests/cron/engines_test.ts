// The record of the last slot on every engine that can remember ids, and the engines that are refused.

import { describe, it } from "node:test";
import { assertEquals, assertRejects } from "@std/assert";
import { CronLoop } from "../../src/cron/mod.ts";
import { openMailbox } from "../../src/engines/open_mailbox.ts";
import { silentLog } from "../../src/log.ts";
import type { Mailbox } from "../../src/mailbox/mailbox.ts";
import { VirtualClock } from "../../src/testing/mod.ts";
import * as denoKv from "../engines/deno_kv/_kv.ts";
import * as nats from "../engines/nats/_nats.ts";
import * as postgres from "../engines/postgres/_shared.ts";
import * as redis from "../engines/redis/_redis.ts";
import { TempFolder } from "../engines/sqlite/_folder.ts";

const HOUR = 3_600_000;
const START = Date.UTC(2030, 0, 7, 8, 30);

/** Starts a loop, and ends it when it has sent what is due. Only the loop has a virtual clock. */
async function visit(mailbox: Mailbox<string> | string, clock: VirtualClock): Promise<void> {
  const loop = new CronLoop<string>({
    name: "report",
    schedule: "0 * * * *",
    mailbox,
    catchUp: "all",
    body: ({ at }) => at.toISOString().slice(11, 16),
    clock,
    log: silentLog,
  });
  await loop.run({ untilEmpty: true });
}

async function handle(mailbox: Mailbox<string>): Promise<string[]> {
  const messages = await mailbox.receive({ maxMessages: 100 });
  for (const message of messages) await message.acknowledge();
  return messages.map(({ body }) => body);
}

async function sendsWhatWasMissed(url: string): Promise<void> {
  const clock = new VirtualClock(START);
  await using mailbox = await openMailbox<string>(url, { log: silentLog });
  await using other = await openMailbox<string>(url, { log: silentLog });
  await visit(mailbox, clock);
  assertEquals(await handle(mailbox), [], "the first start");
  const visits: readonly [number, string[]][] = [[2, ["09:00", "10:00"]], [0, []], [1, ["11:00"]]];
  for (const [hours, expected] of visits) {
    clock.stepWallClock(hours * HOUR);
    // Two replicas at the same time.
    await Promise.all([visit(mailbox, clock), visit(other, clock)]);
    assertEquals(await handle(mailbox), expected);
  }
  await using records = mailbox.queue!<unknown>(`${mailbox.name}.cron`);
  assertEquals(await records.approximateCount(), 1);
}

describe("CronLoop on an engine", () => {
  it("SQLite: a restart sends each missed slot once", async () => {
    using folder = new TempFolder();
    await sendsWhatWasMissed(`sqlite:${folder.file()}?queue=jobs`);
  });

  it("PostgreSQL: a restart sends each missed slot once", postgres.options, async () => {
    await sendsWhatWasMissed(`${postgres.url}?queue=jobs&schema=${postgres.ownSchema()}`);
  });

  it("Redis: a restart sends each missed slot once", redis.gate, async () => {
    const name = redis.uniqueName();
    try {
      await sendsWhatWasMissed(`${redis.url}?queue=${name}`);
    } finally {
      await redis.cleanUp(name);
    }
  });

  it("Deno KV, which finds no message by its id: the same", denoKv.gate, async () => {
    using folder = new denoKv.TempFolder();
    await sendsWhatWasMissed(`denokv:${folder.file("jobs.kv")}?queue=jobs`);
  });

  it("NATS, which cannot remember ids, is refused when the run starts", nats.gate, async () => {
    const name = `cron-${crypto.randomUUID()}`;
    try {
      await assertRejects(
        () => visit(`${nats.url}?queue=${name}`, new VirtualClock(START)),
        Error,
        "dedupWindow",
      );
    } finally {
      await nats.cleanUp(name);
    }
  });
});
