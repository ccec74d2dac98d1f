import { describe, it } from "node:test";
import { assertEquals, assertGreater } from "@std/assert";
import { RetryLaterError } from "../../src/errors.ts";
import { silentLog } from "../../src/log.ts";
import { MailboxLoop } from "../../src/loops/mailbox_loop.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import { Worker } from "./_worker.ts";

describe("a handler that wants its message later", () => {
  it("gets it after the delay, without an attempt spent, whatever the policy says", async () => {
    const worker = new Worker();
    const seen: [at: number, attempt: number][] = [];
    await worker.fill(1);
    const loop = worker.loop((_, { attempt }) => {
      seen.push([worker.clock.monotonic(), attempt]);
      if (seen.length < 4) throw new RetryLaterError("not yet", { delayMs: 10_000 });
    }, { deadLetter: { maxDeliveries: 1, include: [Error] } });
    await worker.workOff(loop);
    assertEquals(seen, [[0, 1], [10_000, 1], [20_000, 1], [30_000, 1]]);
    const { nacked, acknowledged, deadLettered } = loop.counts;
    assertEquals([nacked, acknowledged, deadLettered], [3, 1, 0]);
  });

  it("waits as long as the loop's backoff says where it does not say, and longer than twelve hours", async () => {
    const worker = new Worker();
    const seen: number[] = [];
    await worker.fill(1);
    const loop = worker.loop(() => {
      seen.push(worker.clock.monotonic());
      if (seen.length === 1) throw new RetryLaterError("not yet");
      if (seen.length === 2) throw new RetryLaterError("tomorrow", { delayMs: 86_400_000 });
    }, { backoff: { minMs: 5_000, maxMs: 5_000 } });
    const run = loop.run();
    await worker.clock.advance(5_000);
    assertEquals(seen.length, 2);
    await worker.clock.advance(86_300_000);
    assertEquals(seen.length, 2);
    await worker.clock.advance(100_000);
    assertEquals(seen.length, 3);
    await worker.clock.until(loop.shutdown());
    await run;
  });
});

describe("a message that is about to be dead-lettered", () => {
  it("is told of first, with the reason, and can still be answered", async () => {
    const worker = new Worker();
    const told: unknown[] = [];
    await worker.fill(1);
    const loop = worker.loop(() => {
      throw new Error("no");
    }, {
      deadLetter: { maxDeliveries: 1 },
      onDeadLetter: async (message, { reason, error }) => {
        await worker.clock.sleep(100);
        told.push([message.body, message.finalized, reason, error]);
      },
    });
    await worker.workOff(loop);
    assertEquals(told, [[1, false, "max_deliveries", "Error: no"]]);
    assertEquals(await worker.mailbox.deadLetters.approximateCount(), 1);
  });

  it("keeps its lease while onDeadLetter runs, however long that takes", async () => {
    const worker = new Worker();
    await worker.fill(1);
    let told = 0;
    const loop = worker.loop(() => {
      throw new Error("no");
    }, {
      deadLetter: { maxDeliveries: 1 },
      onDeadLetter: async () => {
        told++;
        await worker.clock.sleep(60_000);
      },
    });
    await worker.clock.until(loop.run({ maxIterations: 1, visibilityTimeoutMs: 5_000 }));
    assertEquals([told, loop.counts.deadLettered, loop.counts.leftToExpire], [1, 1, 0]);
    assertEquals(await worker.mailbox.deadLetters.approximateCount(), 1);
  });

  it("is dead-lettered although its hook fails", async () => {
    const worker = new Worker();
    await worker.fill(1);
    const loop = worker.loop(() => {
      throw new Error("no");
    }, {
      deadLetter: { maxDeliveries: 1 },
      onDeadLetter: () => Promise.reject(new Error("nobody there")),
    });
    await worker.workOff(loop);
    assertEquals(loop.counts.deadLettered, 1);
  });
});

describe("a loop without a dead-letter policy of its own", () => {
  const failing = () => {
    throw new Error("no");
  };
  const backoff = { minMs: 100, maxMs: 100 };

  it("dead-letters a message after 10 failed attempts", async () => {
    const worker = new Worker();
    await worker.fill(1);
    const loop = worker.loop(failing, { backoff });
    await worker.workOff(loop);
    const { nacked, deadLettered } = loop.counts;
    assertEquals([nacked, deadLettered], [9, 1]);
    const [letter] = await worker.mailbox.deadLetters.receive();
    assertEquals([letter?.body.reason, letter?.body.deliveryCount], ["max_deliveries", 10]);
  });

  it("retries for ever with `deadLetter: false`", async () => {
    const worker = new Worker();
    await worker.fill(1);
    const loop = worker.loop(failing, { backoff, deadLetter: false });
    const run = loop.run();
    await worker.clock.advance(5_000);
    await worker.clock.until(loop.shutdown());
    await run;
    assertEquals(loop.counts.deadLettered, 0);
    assertGreater(loop.counts.nacked, 20);
    assertEquals(await worker.mailbox.approximateCount(), 1);
  });

  it("retries for ever when the mailbox keeps no dead letters", async () => {
    const { clock } = new Worker();
    const mailbox = new WithoutDeadLetters<number>("jobs", { clock, log: silentLog });
    await mailbox.send(1);
    const options = { mailbox, handler: failing, clock, log: silentLog, backoff };
    const loop = new MailboxLoop<number>(options);
    const run = loop.run();
    await clock.advance(5_000);
    await clock.until(loop.shutdown());
    await run;
    assertEquals(loop.counts.deadLettered, 0);
    assertGreater(loop.counts.nacked, 20);
  });
});

class WithoutDeadLetters<T> extends InMemoryMailbox<T> {
  override get deadLetters(): never {
    return undefined as never;
  }
}
