import { describe, it } from "node:test";
import { assertEquals, assertRejects } from "@std/assert";
import { silentLog } from "../../src/log.ts";
import { MailboxLoop } from "../../src/loops/mailbox_loop.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import { VirtualClock } from "../../src/testing/virtual_clock.ts";
import { Worker } from "./_worker.ts";

describe("a message with options of its own", () => {
  it("is dead-lettered after its own number of failed attempts", async () => {
    const worker = new Worker();
    const attempts: number[] = [];
    await worker.mailbox.send(1, { maxDeliveries: 2 });
    await worker.mailbox.send(2, { maxDeliveries: 5 });
    await worker.mailbox.send(3);
    const loop = worker.loop(({ body }) => {
      attempts.push(body);
      throw new Error("always");
    }, { deadLetter: { maxDeliveries: 3 }, backoff: { minMs: 1_000, maxMs: 1_000 } });
    await worker.workOff(loop);
    const times = (body: number) => attempts.filter((it) => it === body).length;
    assertEquals([times(1), times(2), times(3)], [2, 5, 3]);
    assertEquals(loop.counts.deadLettered, 3);
  });

  it("waits for its own backoff before a retry", async () => {
    const worker = new Worker();
    const seen: [number, number][] = [];
    await worker.mailbox.send(1, { backoff: { minMs: 60_000, maxMs: 60_000 } });
    await worker.mailbox.send(2);
    const loop = worker.loop(({ body }, { attempt }) => {
      seen.push([body, worker.clock.monotonic()]);
      if (attempt === 1) throw new Error("once");
    }, { backoff: { minMs: 1_000, maxMs: 1_000 }, concurrency: 2 });
    await worker.workOff(loop);
    const retriedAt = (body: number) => seen.findLast(([it]) => it === body)![1];
    assertEquals([retriedAt(2) <= 1_000, retriedAt(1) >= 30_000], [true, true]);
  });

  it("is not handled after it has expired, and the loop ends when its mailbox is empty", async () => {
    const worker = new Worker();
    const handled: number[] = [];
    const options = { expiresInMs: 1_000, onExpired: "drop" } as const;
    await worker.mailbox.sendMany([1, 2, 3], options);
    await worker.mailbox.send(4);
    await worker.clock.advance(1_000);
    const loop = worker.loop(({ body }) => void handled.push(body));
    await worker.clock.until(loop.run({ untilEmpty: true }));
    assertEquals([handled, await worker.mailbox.approximateCount()], [[4], 0]);
  });
});

describe("a request to a loop", () => {
  const open = () => {
    const clock = new VirtualClock();
    const mailbox = new InMemoryMailbox<number, number>("squares", { clock, log: silentLog });
    return { clock, mailbox };
  };

  it("resolves with what the handler replies", async () => {
    const { clock, mailbox } = open();
    const loop = new MailboxLoop<number, number>({
      mailbox,
      clock,
      log: silentLog,
      concurrency: 10,
      handler: async (message) => await message.reply(message.body ** 2),
    });
    const run = loop.run();
    const replies = Promise.all([1, 2, 3, 4].map((body) => mailbox.request(body)));
    assertEquals(await clock.until(replies), [1, 4, 9, 16]);
    await clock.until(loop.shutdown());
    await run;
    await mailbox.close();
    assertEquals(clock.pending, 0);
  });

  it("that times out leaves nothing behind when the reply is late", async () => {
    const { clock, mailbox } = open();
    const loop = new MailboxLoop<number, number>({
      mailbox,
      clock,
      log: silentLog,
      handler: async (message) => {
        await clock.sleep(5_000);
        await message.reply(0);
      },
    });
    const run = loop.run();
    const requesting = assertRejects(() => mailbox.request(7, { timeoutMs: 1_000 }));
    await clock.advance(10_000);
    await requesting;
    await clock.until(loop.shutdown());
    await run;
    assertEquals(loop.counts.acknowledged, 1, "the handler does not notice");
    const queues = await mailbox.queues();
    assertEquals(queues.map(({ waiting, inFlight }) => [waiting, inFlight]), [[0, 0], [0, 0]]);
    await mailbox.close();
    assertEquals(clock.pending, 0);
  });
});
