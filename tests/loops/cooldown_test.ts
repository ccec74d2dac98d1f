import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { RetryLaterError } from "../../src/errors.ts";
import { Worker } from "./_worker.ts";

/** A provider that refuses the first call with the time after which it accepts calls again. */
function busyAtFirst(worker: Worker, delayMs: number): { startedAt: number[]; call(): void } {
  const startedAt: number[] = [];
  return {
    startedAt,
    call() {
      startedAt.push(worker.clock.monotonic());
      if (startedAt.length === 1) {
        throw new RetryLaterError("provider is busy", { delayMs, pauseQueue: true });
      }
    },
  };
}

describe("RetryLaterError with pauseQueue", () => {
  it("pauses the queue for all loops, and then all messages are handled", async () => {
    const worker = new Worker();
    await worker.fill(10);
    const provider = busyAtFirst(worker, 30_000);
    const loops = [1, 2].map((id) => worker.loop(() => provider.call(), { name: `loop ${id}` }));
    const runs = loops.map((loop) => loop.run());
    await worker.clock.advance(29_999);
    const early = provider.startedAt.filter((at) => at < 30_000).length;
    assertEquals(early <= 2, true, `${early} calls: one refused, and one of the other loop`);
    const { paused, pausedForMs } = await worker.mailbox.stats();
    assertEquals([paused, pausedForMs], [true, 1]);
    while (await worker.mailbox.approximateCount() > 0) await worker.clock.advance(100);
    await worker.clock.until(Promise.all(loops.map((loop) => loop.shutdown())));
    await Promise.all(runs);
    const counts = loops.map((loop) => loop.counts);
    assertEquals(counts.reduce((sum, it) => sum + it.acknowledged, 0), 10);
    assertEquals(counts.reduce((sum, it) => sum + it.nacked, 0), 1);
  });

  it("releases the messages that this loop has prefetched", async () => {
    const worker = new Worker();
    await worker.fill(5);
    const provider = busyAtFirst(worker, 1_000);
    const loop = worker.loop(() => provider.call(), { prefetch: 4 });
    await worker.workOff(loop);
    assertEquals(provider.startedAt[0], 0);
    assertEquals(provider.startedAt.slice(1).every((at) => at >= 1_000), true);
    const { acknowledged, nacked, released } = loop.counts;
    assertEquals([acknowledged, nacked, released], [5, 1, 4]);
  });

  it("spends no attempt", async () => {
    const worker = new Worker();
    await worker.fill(1);
    const attempts: number[] = [];
    const loop = worker.loop((_, { attempt }) => {
      attempts.push(attempt);
      if (attempts.length < 5) {
        throw new RetryLaterError("busy", { delayMs: 100, pauseQueue: true });
      }
    }, { deadLetter: { maxDeliveries: 2 } });
    await worker.workOff(loop);
    assertEquals([attempts, loop.counts.deadLettered], [[1, 1, 1, 1, 1], 0]);
  });

  it("lets only the message wait where the queue cannot be paused", async () => {
    const worker = new Worker();
    await worker.fill(3);
    worker.mailbox.pause = () => Promise.reject(new Error("no such capability"));
    const provider = busyAtFirst(worker, 5_000);
    const warnings: string[] = [];
    const log = { debug() {}, info() {}, error() {}, warn: (text: string) => warnings.push(text) };
    await worker.workOff(worker.loop(() => provider.call(), { log }));
    assertEquals(provider.startedAt.filter((at) => at === 0).length, 3);
    assertEquals(provider.startedAt.length, 4);
    assertEquals(warnings, ["queue could not be paused; only the message waits"]);
  });
});
