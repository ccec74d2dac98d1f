import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import { CancelledError } from "../../src/errors.ts";
import { silentLog } from "../../src/log.ts";
import { deferred } from "../../src/_promises.ts";
import type { DeadLetterReason } from "../../src/mailbox/mailbox.ts";
import { Worker } from "./_worker.ts";

describe("a message that is cancelled while its handler runs", () => {
  it("aborts the handler's signal, and is counted as cancelled whatever the handler does", async () => {
    for (const outcome of ["returns", "throws", "ignores"] as const) {
      const worker = new Worker();
      await worker.fill(1);
      const started = deferred();
      let reason: unknown;
      const warnings: string[] = [];
      const log = { ...silentLog, warn: (event: string) => void warnings.push(event) };
      const loop = worker.loop(async (_, { signal }) => {
        started.resolve();
        const aborted = new Promise<void>((resolve) => {
          signal.addEventListener("abort", () => resolve(), { once: true });
        });
        await (outcome === "ignores" ? worker.clock.sleep(60_000) : aborted);
        reason = signal.reason;
        if (outcome === "throws") throw reason;
      }, { log });
      const run = loop.run();
      await worker.clock.until(started.promise);
      const [held] = await worker.mailbox.peek(1);
      assertEquals(await worker.mailbox.cancel(held!.id), true);
      await worker.clock.advance(60_000);
      assert(reason instanceof CancelledError, outcome);
      assertEquals([reason.reason, reason.message.includes(held!.id)], ["cancelled", true]);
      await worker.clock.until(loop.shutdown());
      await run;
      const { received, cancelled, leftToExpire, released } = loop.counts;
      assertEquals([received, cancelled, leftToExpire, released], [1, 1, 0, 0], outcome);
      assertEquals(await worker.mailbox.approximateCount(), 0);
      assertEquals(warnings, [], "no lease is lost, and no settlement fails");
    }
  });

  it("does not reach onDeadLetter or the dead letters when its handler fails", async () => {
    const worker = new Worker();
    await worker.fill(1);
    const started = deferred();
    const reasons: DeadLetterReason[] = [];
    const loop = worker.loop(async (_, { signal }) => {
      started.resolve();
      await worker.clock.sleep(1_000_000, { signal });
    }, {
      deadLetter: { maxDeliveries: 1 },
      onDeadLetter: (_, reason) => void reasons.push(reason),
    });
    const run = loop.run();
    await worker.clock.until(started.promise);
    const [held] = await worker.mailbox.peek(1);
    await worker.mailbox.cancel(held!.id);
    await worker.clock.until(loop.shutdown());
    await run;
    assertEquals([reasons.length, loop.counts.cancelled, loop.counts.deadLettered], [0, 1, 0]);
    assertEquals(await worker.mailbox.deadLetters.approximateCount(), 0);
  });
});

it("a prefetched message that is cancelled is never handled", async () => {
  const worker = new Worker();
  await worker.fill(3);
  const handled: number[] = [];
  const first = deferred();
  const goOn = deferred();
  const loop = worker.loop(async ({ body }) => {
    handled.push(body);
    first.resolve();
    await goOn.promise;
  }, { prefetch: 2 });
  const run = loop.run();
  await worker.clock.until(first.promise);
  await worker.clock.advance(0);
  const peeked = await worker.mailbox.peek(3);
  assertEquals(peeked.map(({ state }) => state), ["inFlight", "inFlight", "inFlight"]);
  await worker.mailbox.cancel(peeked[1]!.id);
  goOn.resolve();
  await worker.clock.advance(1_000);
  await worker.clock.until(loop.shutdown());
  await run;
  assertEquals([handled, loop.counts.cancelled, loop.counts.acknowledged], [[1, 3], 1, 2]);
});

it("a message that is cancelled during its receive is not handled", async () => {
  const worker = new Worker();
  await worker.fill(1);
  const [waiting] = await worker.mailbox.peek(1);
  const { mailbox } = worker;
  const receive = mailbox.receive.bind(mailbox);
  let isFirst = true;
  mailbox.receive = async (options) => {
    const messages = await receive(options);
    if (isFirst) await mailbox.cancel(waiting!.id); // before the loop has the answer
    isFirst = false;
    return messages;
  };
  let handled = 0;
  const loop = worker.loop(() => void handled++);
  const run = loop.run();
  await worker.clock.advance(0);
  await worker.clock.until(loop.shutdown());
  await run;
  assertEquals([handled, loop.counts.received, loop.counts.cancelled], [0, 1, 1]);
});

it("a loop listens to cancellations only while it runs", async () => {
  const worker = new Worker();
  const { mailbox } = worker;
  const onCancel = mailbox.onCancel.bind(mailbox);
  let listeners = 0;
  mailbox.onCancel = (listener) => {
    const stop = onCancel(listener);
    listeners++;
    return () => {
      listeners--;
      return stop();
    };
  };
  const loop = worker.loop(() => {});
  const run = loop.run();
  await worker.clock.advance(0);
  assertEquals(listeners, 1);
  await worker.clock.until(loop.shutdown());
  await run;
  assertEquals(listeners, 0);
});
