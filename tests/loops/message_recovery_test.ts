import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { deferred } from "../../src/_promises.ts";
import { NO_COUNTS } from "../../src/lifecycle/runnable.ts";
import { FaultyMailbox } from "../../src/testing/faulty_mailbox.ts";
import { MailboxLoop } from "../../src/loops/mailbox_loop.ts";
import { silentLog } from "../../src/log.ts";
import { VirtualClock } from "../../src/testing/virtual_clock.ts";
import { Worker } from "./_worker.ts";

describe("when a stop interrupts", () => {
  it("what is in flight completes and is acknowledged", async () => {
    const worker = new Worker();
    await worker.fill(1);
    const loop = worker.loop(() => worker.clock.sleep(5_000));
    const run = loop.run();
    await worker.clock.advance(1_000);
    await worker.clock.until(loop.shutdown());
    await run;
    assertEquals([loop.counts.acknowledged, await worker.mailbox.approximateCount()], [1, 0]);
  });

  it("what was received and not started goes to another worker at once", async () => {
    const worker = new Worker();
    await worker.fill(3);
    const seen: string[] = [];
    const first = worker.loop(() => worker.clock.sleep(5_000), { prefetch: 2 });
    const second = worker.loop(({ body, deliveryCount }) => {
      seen.push(`${body}, delivery ${deliveryCount}, at ${worker.clock.monotonic()}`);
    });
    const runs = [first.run()];
    await worker.clock.advance(1_000);
    runs.push(second.run());
    const stopped = first.shutdown();
    await worker.clock.settle();
    assertEquals(seen, ["2, delivery 1, at 1000", "3, delivery 1, at 1000"]);
    await worker.clock.until(Promise.all([stopped, second.shutdown()]));
    await Promise.all(runs);
  });

  it("what was never received is picked up by another worker", async () => {
    const worker = new Worker();
    await worker.fill(2);
    const first = worker.loop(() => worker.clock.sleep(1_000));
    const run = first.run();
    await worker.clock.advance(500);
    await worker.clock.until(first.shutdown());
    await run;
    const seen: number[] = [];
    await worker.workOff(worker.loop(({ body }) => void seen.push(body)));
    assertEquals(seen, [2]);
  });

  it("what outlives its visibility timeout is delivered again", async () => {
    const worker = new Worker();
    await worker.fill(1);
    const loop = worker.loop(() => new Promise(() => {}), { lease: false });
    loop.run({ visibilityTimeoutMs: 2_000 });
    await worker.clock.advance(100);
    assertEquals(await worker.clock.until(loop.shutdown({ timeoutMs: 5_000 })), false);
    const [again] = await worker.mailbox.receive();
    assertEquals([again?.body, again?.deliveryCount], [1, 2]);
  });
});

describe("while the messages of a receive are decoded", () => {
  /** A worker whose codec takes `ms` for a body. */
  const slowWorker = (ms: number) => {
    const worker: Worker = new Worker({
      codec: {
        encode: String,
        decode: async (text) => {
          await worker.clock.sleep(ms);
          return Number(text);
        },
      },
    });
    return worker;
  };

  it("their leases run, and are extended in time", async () => {
    const worker = slowWorker(8_000);
    await worker.fill(1);
    const started: number[] = [];
    const loop = worker.loop(({ deliveryCount }) => {
      started.push(deliveryCount);
      return worker.clock.sleep(5_000);
    }, { visibilityTimeoutMs: 10_000 });
    await worker.workOff(loop);
    assertEquals([started, loop.counts.acknowledged], [[1], 1]);
  });

  it("one whose lease ends meanwhile is not handled", async () => {
    const worker = slowWorker(11_000);
    await worker.fill(1);
    const started: number[] = [];
    const loop = worker.loop(({ deliveryCount }) => {
      started.push(deliveryCount);
    }, { visibilityTimeoutMs: 10_000 });
    const run = loop.run();
    await worker.clock.advance(12_000);
    assertEquals(started, []);
    await worker.clock.until(loop.shutdown());
    await run;
  });
});

describe("after a suspension", () => {
  it("a message that waited for its handler is not started when its lease has ended", async () => {
    const worker = new Worker();
    await worker.fill(2);
    const started: string[] = [];
    const suspended = worker.loop(({ body, deliveryCount }) => {
      started.push(`${body}, delivery ${deliveryCount}`);
      return worker.clock.sleep(1_000);
    }, { prefetch: 1, visibilityTimeoutMs: 10_000 });
    const run = suspended.run();
    await worker.clock.advance(500);
    // The handler ends in the moment after the suspension, before the leases would have been extended.
    await worker.clock.suspend(11_000);
    await worker.clock.advance(1_500);
    assertEquals(started, ["1, delivery 1", "1, delivery 2", "2, delivery 2"]);
    await worker.clock.until(suspended.shutdown());
    await run;
    assertEquals(suspended.counts, {
      ...NO_COUNTS,
      received: 4,
      acknowledged: 2,
      leftToExpire: 2,
    });
  });
});

describe("after a suspension that was longer than the lease", () => {
  it("a handler begins no further step", async () => {
    const worker = new Worker();
    await worker.fill(1);
    const began: string[] = [];
    const suspended = worker.loop(async ({ deliveryCount }, { step }) => {
      for (const name of ["reserve", "charge"]) {
        await step(name, async () => {
          began.push(`${name} in delivery ${deliveryCount}`);
          await worker.clock.sleep(1_000);
        });
        await worker.clock.sleep(1_000);
      }
    }, { visibilityTimeoutMs: 10_000 });
    const run = suspended.run();
    await worker.clock.advance(1_500);
    assertEquals(began, ["reserve in delivery 1"]);
    // The handler goes on before the extension of the lease is refused.
    await worker.clock.suspend(11_000);
    await worker.clock.advance(3_000);
    assertEquals(began, ["reserve in delivery 1", "charge in delivery 2"]);
    await worker.clock.until(suspended.shutdown());
    await run;
    assertEquals([suspended.counts.acknowledged, suspended.counts.leftToExpire], [1, 1]);
  });
});

describe("a burial that fails", () => {
  it("loses nothing: the message comes back and is dead-lettered then", async () => {
    const clock = new VirtualClock();
    const mailbox = new FaultyMailbox<number>("jobs", { clock, log: silentLog });
    await mailbox.send(1);
    mailbox.loseConnection({ operations: ["deadLetter"] });
    let attempts = 0;
    const loop = new MailboxLoop({
      mailbox,
      clock,
      log: silentLog,
      deadLetter: { maxDeliveries: 1 },
      handler: () => {
        attempts++;
        throw new Error("no luck");
      },
    });
    const run = loop.run({ visibilityTimeoutMs: 10_000 });
    await clock.advance(9_000);
    assertEquals([loop.counts.deadLettered, loop.counts.leftToExpire], [0, 1]);
    assertEquals(await mailbox.approximateCount(), 1, "it is still there");
    mailbox.restoreConnection();
    await clock.advance(10_000);
    assertEquals([attempts, loop.counts.deadLettered], [1, 1], "and is not worked on again");
    assertEquals(await mailbox.deadLetters.approximateCount(), 1);
    await clock.until(loop.shutdown());
    await run;
  });
});

describe("a handler that settles its message and does not wait", () => {
  it("spoils nothing for those that are acknowledged with it", async () => {
    const clock = new VirtualClock();
    const mailbox = new FaultyMailbox<number>("jobs", { clock, log: silentLog });
    await mailbox.sendMany([1, 2, 3]);
    mailbox.freeze("acknowledge");
    const loop = new MailboxLoop({
      mailbox,
      clock,
      log: silentLog,
      concurrency: 3,
      handler: (message) => {
        if (message.body === 2) message.acknowledge();
      },
    });
    const run = loop.run();
    await clock.advance(10);
    mailbox.thaw();
    await clock.until(loop.shutdown());
    await run;
    assertEquals([loop.counts.acknowledged, await mailbox.approximateCount()], [3, 0]);
  });
});

describe("an engine that hangs", () => {
  it("does not hold the stop of a loop that has nothing in flight", async () => {
    const clock = new VirtualClock();
    const mailbox = new FaultyMailbox<number>("jobs", { clock, log: silentLog });
    mailbox.freeze();
    const loop = new MailboxLoop({ mailbox, clock, log: silentLog, handler: () => {} });
    const run = loop.run();
    await clock.advance(60_000);
    assertEquals(await clock.until(loop.shutdown({ timeoutMs: 30_000 })), true);
    await run;
    assertEquals(clock.monotonic(), 61_000, "a second for what it may still hand over");
    mailbox.thaw();
    await clock.settle();
    assertEquals(clock.pending, 0);
  });

  it("on one acknowledgement does not keep other work from being given back", async () => {
    const clock = new VirtualClock();
    const mailbox = new FaultyMailbox<number>("jobs", { clock, log: silentLog });
    await mailbox.sendMany([1, 2]);
    mailbox.freeze("acknowledge");
    const handler = ({ body }: { body: number }) => body === 1 ? undefined : new Promise(() => {});
    const loop = new MailboxLoop({ mailbox, clock, log: silentLog, handler, concurrency: 2 });
    loop.run();
    await clock.advance(10);
    assertEquals(await clock.until(loop.shutdown({ timeoutMs: 1_000 })), false);
    await clock.until(loop.abandon());
    assertEquals([loop.counts.released, loop.counts.leftToExpire], [1, 1]);
    const [back] = await mailbox.receive();
    assertEquals([back?.body, back?.deliveryCount], [2, 1]);
  });

  it("and answers when the handler has ended leaves the figures of a given-back message right", async () => {
    const clock = new VirtualClock();
    const mailbox = new FaultyMailbox<number>("jobs", { clock, log: silentLog });
    await mailbox.send(1);
    const ended = deferred();
    const loop = new MailboxLoop({ mailbox, clock, log: silentLog, handler: () => ended.promise });
    const run = loop.run();
    await clock.advance(10);
    assertEquals(await clock.until(loop.shutdown({ timeoutMs: 1_000 })), false);
    mailbox.freeze("release");
    const abandoned = loop.abandon();
    await clock.settle();
    ended.resolve();
    await clock.settle();
    mailbox.thaw();
    await clock.until(abandoned);
    await clock.until(run);
    const { received, released, leftToExpire } = loop.counts;
    assertEquals([received, released, leftToExpire], [1, 1, 0]);
  });

  it("bounds the stop of a loop with work in flight by its deadline, and tells what is left", async () => {
    const clock = new VirtualClock();
    const mailbox = new FaultyMailbox<number>("jobs", { clock, log: silentLog });
    await mailbox.send(1);
    const handler = () => clock.sleep(5_000);
    const loop = new MailboxLoop({ mailbox, clock, log: silentLog, handler });
    loop.run();
    await clock.advance(1_000);
    mailbox.freeze();
    assertEquals(await clock.until(loop.shutdown({ timeoutMs: 10_000 })), false);
    assertEquals([loop.counts.leftToExpire, clock.monotonic()], [1, 11_000]);
    mailbox.thaw();
    await clock.settle();
    assertEquals([loop.counts.acknowledged, loop.running], [1, false], "it goes on by itself");
  });
});
