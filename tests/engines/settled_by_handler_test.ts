import { describe, it } from "node:test";
import { assertEquals, assertGreater } from "@std/assert";
import { deferred } from "../../src/_promises.ts";
import { PostgresMailbox } from "../../src/engines/postgres/mod.ts";
import { SqliteMailbox } from "../../src/engines/sqlite/mod.ts";
import { silentLog } from "../../src/log.ts";
import { MailboxLoop } from "../../src/loops/mailbox_loop.ts";
import type { Mailbox, Message } from "../../src/mailbox/mailbox.ts";
import { eventually } from "./_servers.ts";
import { gate as natsGate, openForTest as openNats, url as natsUrl } from "./nats/_nats.ts";
import { options as postgresGate, ownSchema, url as postgresUrl } from "./postgres/_shared.ts";
import { gate as redisGate, openForTest as openRedis, url as redisUrl } from "./redis/_redis.ts";
import { TempFolder } from "./sqlite/_folder.ts";

const COUNT = 40;

/** 40 handlers settle their messages and go on, until the lease of one more was extended three times. */
async function settleAndGoOn(
  mailbox: Mailbox<unknown>,
  settle: (message: Message<unknown>) => Promise<void>,
): Promise<void> {
  await mailbox.sendMany(Array.from({ length: COUNT + 1 }, (_, i) => i));
  const extended = deferred();
  const signals: AbortSignal[] = [];
  const loop = new MailboxLoop({
    mailbox,
    log: silentLog,
    concurrency: COUNT + 1,
    lease: { intervalMs: 100 },
    handler: async (message, { signal }) => {
      signals.push(signal);
      if (message.body !== COUNT) await settle(message);
      await extended.promise;
    },
  });
  const run = loop.run({ visibilityTimeoutMs: 10_000 });
  await eventually(() => {
    assertEquals(signals.length, COUNT + 1);
    return Promise.resolve();
  });
  const { attempts } = loop.leases.counters;
  await eventually(() => {
    assertGreater(loop.leases.counters.attempts, attempts + 2);
    return Promise.resolve();
  });
  assertEquals(signals.filter(({ aborted }) => aborted).length, 0, "no handler lost its lease");
  extended.resolve();
  await loop.shutdown();
  await run;
  assertEquals([loop.leases.counters.losses, loop.counts.leftToExpire], [0, 0]);
  assertEquals(loop.counts.received, COUNT + 1);
}

const acknowledge = (message: Message<unknown>) => message.acknowledge();
const postpone = (message: Message<unknown>) => message.nack({ delayMs: 60_000 });

for (const [what, settle] of [["acknowledges", acknowledge], ["nacks", postpone]] as const) {
  describe(`a handler that ${what} its message and goes on keeps its signal`, () => {
    it(`a handler that ${what} its message and goes on keeps its signal on SQLite`, async () => {
      using folder = new TempFolder();
      await using mailbox = await SqliteMailbox.open<unknown>(folder.file(), { name: "jobs" });
      await settleAndGoOn(mailbox, settle);
    });

    it(
      `a handler that ${what} its message and goes on keeps its signal on Redis`,
      redisGate,
      async () => {
        await using open = await openRedis(redisUrl);
        await settleAndGoOn(open.mailbox, settle);
      },
    );

    it(
      `a handler that ${what} its message and goes on keeps its signal on PostgreSQL`,
      postgresGate,
      async () => {
        const schema = ownSchema();
        await using mailbox = await PostgresMailbox.open<unknown>(postgresUrl!, {
          name: "jobs",
          schema,
          log: silentLog,
        });
        await settleAndGoOn(mailbox, settle);
      },
    );

    it(
      `a handler that ${what} its message and goes on keeps its signal on NATS`,
      natsGate,
      async () => {
        await using open = await openNats(natsUrl);
        await settleAndGoOn(open.mailbox, settle);
      },
    );
  });
}
