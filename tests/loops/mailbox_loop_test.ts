import { describe, it } from "node:test";
import { assert, assertEquals, assertThrows } from "@std/assert";
import { MailboxLoop } from "../../src/loops/mailbox_loop.ts";
import { lifecycleCases } from "../../src/testing/lifecycle_cases.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import { Worker } from "./_worker.ts";

describe("MailboxLoop", () => {
  for (const { name, run } of lifecycleCases) {
    it(name, () =>
      run(() => {
        const worker = new Worker();
        return { clock: worker.clock, runnable: worker.loop(() => {}) };
      }));
  }

  it("works off a mailbox in order and acknowledges", async () => {
    const worker = new Worker();
    const seen: number[] = [];
    await worker.fill(25);
    const loop = worker.loop(({ body }) => void seen.push(body));
    await worker.workOff(loop);
    assertEquals(seen, Array.from({ length: 25 }, (_, i) => i + 1));
    assertEquals([loop.counts.received, loop.counts.acknowledged], [25, 25]);
    assertEquals(worker.clock.pending, 0);
  });

  it("works on as many at a time as asked, and receives no more than it can work on", async () => {
    const worker = new Worker();
    await worker.fill(10);
    let atWork = 0;
    let most = 0;
    const loop = worker.loop(async () => {
      most = Math.max(most, ++atWork);
      await worker.clock.sleep(100);
      atWork--;
    }, { concurrency: 3 });
    const run = loop.run();
    await worker.clock.advance(50);
    assertEquals([loop.inFlight.length, (await worker.visible()).length], [3, 7]);
    await worker.clock.advance(1_000);
    assertEquals([most, loop.counts.acknowledged], [3, 10]);
    await worker.clock.until(loop.shutdown());
    await run;
  });

  it("starts the next as soon as one slot is free", async () => {
    const worker = new Worker();
    await worker.fill(4);
    const started: [number, number][] = [];
    const loop = worker.loop(async ({ body }) => {
      started.push([body, worker.clock.monotonic()]);
      await worker.clock.sleep(body === 1 ? 1_000 : 100);
    }, { concurrency: 2 });
    await worker.workOff(loop);
    assertEquals(started, [[1, 0], [2, 0], [3, 100], [4, 200]]);
  });

  it("acknowledges in one call what it handles in one turn, and does not wait for a slow handler", async () => {
    const worker = new Worker();
    await worker.fill(10);
    const { clock, mailbox } = worker;
    const acknowledgeMany = mailbox.acknowledgeMany.bind(mailbox);
    const calls: number[][] = [];
    mailbox.acknowledgeMany = (messages) => {
      calls.push(messages.map(({ body }) => body));
      return acknowledgeMany(messages);
    };
    const loop = worker.loop(async ({ body }) => {
      if (body === 5) await clock.sleep(60_000);
    }, { concurrency: 1, prefetch: 9 });
    const run = loop.run();
    await clock.advance(1_000);
    await clock.settle();
    assertEquals(calls, [[1, 2, 3, 4]]);
    await clock.advance(60_000);
    await clock.settle(); // the turn in which the handlers ended
    assertEquals(calls, [[1, 2, 3, 4], [5, 6, 7, 8, 9, 10]]);
    await clock.until(loop.shutdown());
    await run;
  });

  it("ends when the mailbox is empty, with all that handlers sent meanwhile", async () => {
    const worker = new Worker();
    await worker.fill(3);
    await worker.mailbox.send(9, { delayMs: 60_000 });
    const seen: number[] = [];
    const loop = worker.loop(async ({ body }) => {
      await worker.clock.sleep(1_000);
      seen.push(body);
      if (body === 3) await worker.mailbox.send(4);
    }, { concurrency: 2 });
    await worker.clock.until(loop.run({ untilEmpty: true }));
    assertEquals([seen, worker.clock.monotonic()], [[1, 2, 3, 4], 3_000]);
    assertEquals(await worker.mailbox.approximateCount(), 1, "a delayed message is not waited for");
  });

  it("a stop finishes what is in flight, ends the long poll, and duplicates nothing", async () => {
    const worker = new Worker();
    await worker.fill(1);
    let completed = 0;
    const loop = worker.loop(async () => {
      await worker.clock.sleep(2_000);
      completed++;
    });
    const run = loop.run();
    await worker.clock.advance(100);
    assertEquals(await worker.clock.until(loop.shutdown({ timeoutMs: 5_000 })), true);
    await run;
    assertEquals([completed, worker.clock.monotonic()], [1, 2_000]);
    assertEquals(await worker.mailbox.approximateCount(), 0);
  });

  it("an idle loop stops at once, in the middle of its long poll", async () => {
    const worker = new Worker();
    const loop = worker.loop(() => {});
    const run = loop.run();
    await worker.clock.advance(7_000);
    assertEquals(await worker.clock.until(loop.shutdown()), true);
    await run;
    assertEquals([worker.clock.monotonic(), worker.clock.pending], [7_000, 0]);
  });

  it("a stop gives back all that was received and not started, untouched and in order", async () => {
    const worker = new Worker();
    await worker.fill(6);
    const loop = worker.loop(() => worker.clock.sleep(1_000), { prefetch: 4 });
    const run = loop.run();
    await worker.clock.advance(10);
    assertEquals(loop.counts.received, 5);
    const stopped = loop.shutdown();
    await worker.clock.settle();
    assertEquals(await worker.visible(), [2, 3, 4, 5, 6], "at once, not after the work in flight");
    await worker.clock.until(stopped);
    await run;
    const messages = await worker.mailbox.receive({ maxMessages: 10 });
    assertEquals(messages.map(({ deliveryCount }) => deliveryCount), [1, 1, 1, 1, 1]);
    const { received, acknowledged, released } = loop.counts;
    assertEquals([received, acknowledged, released], [5, 1, 4]);
  });

  it("what the engine hands over in the very moment of the stop goes back", async () => {
    const worker = new Worker();
    const { mailbox } = worker;
    let handled = 0;
    const loop = worker.loop(() => void handled++);
    const receive = mailbox.receive.bind(mailbox);
    mailbox.receive = async (options) => {
      const messages = await receive({ ...options, waitTimeMs: 0 });
      if (messages.length > 0) loop.shutdown();
      return messages;
    };
    await worker.fill(3);
    await worker.clock.until(loop.run());
    assertEquals([handled, loop.counts.released], [0, 1]);
    mailbox.receive = receive;
    assertEquals(await worker.visible(), [1, 2, 3]);
  });

  it("near the deadline the work is cancelled, and what then throws is given back", async () => {
    const worker = new Worker();
    await worker.fill(2);
    const reasons: unknown[] = [];
    const loop = worker.loop(async ({ body }, { signal, stopping }) => {
      signal.addEventListener("abort", () => reasons.push(signal.reason.reason));
      if (body === 1) await worker.clock.sleep(Infinity, { signal });
      else await worker.clock.sleep(4_700); // finishes although it was told to end
      assert(stopping.aborted);
    }, { concurrency: 2 });
    const run = loop.run();
    await worker.clock.advance(10);
    assertEquals(await worker.clock.until(loop.shutdown({ timeoutMs: 5_000 })), true);
    await run;
    assertEquals(reasons, ["deadline", "deadline"]);
    const { acknowledged, released, leftToExpire } = loop.counts;
    assertEquals([acknowledged, released, leftToExpire], [1, 1, 0]);
    const [back] = await worker.mailbox.receive();
    assertEquals([back?.body, back?.deliveryCount], [1, 1], "without spending an attempt");
  });

  it("a handler that ignores its signal is left to its lease, and told as such", async () => {
    const worker = new Worker();
    await worker.fill(1);
    const loop = worker.loop(() => new Promise(() => {}));
    loop.run();
    await worker.clock.advance(10);
    assertEquals(await worker.clock.until(loop.shutdown({ timeoutMs: 1_000 })), false);
    assertEquals([loop.counts.leftToExpire, loop.inFlight.length], [1, 1]);
    await loop.abandon();
    assertEquals([loop.counts.released, loop.counts.leftToExpire], [1, 0]);
    assertEquals(await worker.visible(), [1]);
  });

  it("goes on extending leases while it drains", async () => {
    const worker = new Worker();
    await worker.fill(1);
    let runs = 0;
    const loop = worker.loop(async () => {
      runs++;
      await worker.clock.sleep(20_000);
    });
    const run = loop.run({ visibilityTimeoutMs: 2_000 });
    await worker.clock.advance(100);
    const stopped = loop.shutdown({ timeoutMs: 30_000 });
    await worker.clock.advance(10_000);
    assertEquals(await worker.visible(), []);
    assertEquals(await worker.clock.until(stopped), true);
    await run;
    assertEquals([runs, loop.counts.acknowledged], [1, 1]);
    assertEquals(await worker.mailbox.approximateCount(), 0);
  });

  it("work longer than its visibility timeout is done once", async () => {
    const worker = new Worker();
    await worker.fill(1);
    let runs = 0;
    const loop = worker.loop(async () => {
      runs++;
      await worker.clock.sleep(5_000);
    }, { lease: { intervalMs: 500, extensionMs: 10_000 } });
    await worker.clock.until(loop.run({ maxIterations: 1, visibilityTimeoutMs: 2_000 }));
    assertEquals([runs, await worker.mailbox.approximateCount()], [1, 0]);
  });

  it("prefetched messages keep their lease while they wait", async () => {
    const worker = new Worker();
    await worker.fill(3);
    const counts: number[] = [];
    const loop = worker.loop(async ({ deliveryCount }) => {
      counts.push(deliveryCount);
      await worker.clock.sleep(10_000);
    }, { prefetch: 2 });
    const run = loop.run({ visibilityTimeoutMs: 2_000 });
    await worker.clock.advance(31_000);
    assertEquals(counts, [1, 1, 1]);
    await worker.clock.until(loop.shutdown());
    await run;
    assertEquals(worker.clock.pending, 0);
  });

  it("takes nothing between drain and resume, and its long poll ends at once", async () => {
    const worker = new Worker();
    const seen: number[] = [];
    const loop = worker.loop(({ body }) => void seen.push(body));
    const run = loop.run();
    await worker.clock.advance(100);
    await worker.clock.until(loop.pause());
    await worker.fill(2);
    await worker.clock.advance(60_000);
    assertEquals([seen.length, loop.running], [0, true]);
    loop.resume();
    await worker.clock.advance(1);
    assertEquals(seen, [1, 2]);
    await worker.clock.until(loop.shutdown());
    await run;
  });

  it("ends when its mailbox is closed", async () => {
    const worker = new Worker();
    const loop = worker.loop(() => {});
    const run = loop.run();
    await worker.clock.advance(100);
    await worker.mailbox.close();
    await worker.clock.until(run);
    assertEquals(worker.clock.pending, 0);
  });

  it("a handler may settle its message itself", async () => {
    const worker = new Worker();
    await worker.fill(1);
    const loop = worker.loop((message) => message.acknowledge());
    await worker.workOff(loop);
    assertEquals([loop.counts.acknowledged, loop.counts.leftToExpire], [1, 0]);
  });

  it("refuses what makes no sense before anything starts", () => {
    const mailbox = new InMemoryMailbox<number>("jobs");
    const handler = () => {};
    assertThrows(() => new MailboxLoop({ mailbox: {} as never, handler }), TypeError, "mailbox");
    assertThrows(() => new MailboxLoop({ mailbox, handler: 5 as never }), TypeError, "handler");
    for (const concurrency of [0, -1, 1.5, NaN, 1_001]) {
      assertThrows(() => new MailboxLoop({ mailbox, handler, concurrency }), RangeError);
    }
    assertThrows(() => new MailboxLoop({ mailbox, handler, prefetch: -1 }), RangeError, "prefetch");
    const deadLetter = { maxDeliveries: 0 };
    assertThrows(() => new MailboxLoop({ mailbox, handler, deadLetter }), RangeError, "got 0");
  });
});
