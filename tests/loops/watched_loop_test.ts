import { afterEach, describe, it } from "node:test";
import { assertEquals, assertGreater } from "@std/assert";
import { LoopGroup } from "../../src/group/loop_group.ts";
import type { LoopGroupOptions } from "../../src/group/loop_group.ts";
import { ShutdownCoordinator } from "../../src/lifecycle/shutdown_coordinator.ts";
import { silentLog } from "../../src/log.ts";
import type { MailboxLoop } from "../../src/loops/mailbox_loop.ts";
import { FakeRuntime } from "../../src/testing/fake_runtime.ts";
import { Worker } from "./_worker.ts";

const HOUR_MS = 3_600_000;

/** A worker whose loop is watched. */
class WatchedWorker extends Worker {
  readonly runtime: FakeRuntime = new FakeRuntime();

  group(loop: MailboxLoop<number>, options: LoopGroupOptions = {}): LoopGroup {
    const { clock, runtime } = this;
    return new LoopGroup([loop], { clock, runtime, log: silentLog, ...options });
  }
}

describe("the watchdog", () => {
  afterEach(() => ShutdownCoordinator.reset());

  it("lets an idle loop wait for messages, however long one receive waits", async () => {
    for (
      const [waitTimeMs, options] of [
        [20_000, { watchdogThresholdMs: 5_000, watchdogIntervalMs: 1_000 }],
        [HOUR_MS, {}],
      ] as const
    ) {
      const worker = new WatchedWorker();
      const group = worker.group(worker.loop(() => {}), options);
      const run = group.run({ waitTimeMs });
      for (let at = 0; at < 5 * HOUR_MS; at += 100_000) {
        await worker.clock.advance(100_000);
        assertEquals([group.health().ready, worker.runtime.kills], [true, 0], `after ${at} ms`);
      }
      await worker.clock.until(group.shutdown());
      await run;
    }
  });

  it("lets a loop wait whose last handler ended during the wait", async () => {
    const worker = new WatchedWorker();
    await worker.fill(1);
    const loop = worker.loop(() => worker.clock.sleep(60_000), { concurrency: 2 });
    const group = worker.group(loop);
    const run = group.run({ waitTimeMs: HOUR_MS });
    await worker.clock.advance(3 * HOUR_MS);
    assertEquals([group.health().ready, worker.runtime.kills], [true, 0]);
    await worker.clock.until(group.shutdown());
    await run;
  });

  it("sees a handler that hangs while the loop waits for more messages", async () => {
    const worker = new WatchedWorker();
    await worker.fill(1);
    const loop = worker.loop(() => new Promise(() => {}), { concurrency: 2 });
    worker.group(loop).run({ waitTimeMs: 24 * HOUR_MS });
    await worker.clock.advance(HOUR_MS);
    assertGreater(worker.runtime.kills, 0);
  });

  it("sees a receive that outlasts its wait", async () => {
    const worker = new WatchedWorker();
    worker.mailbox.receive = () => new Promise(() => {});
    worker.group(worker.loop(() => {})).run({ waitTimeMs: 20_000 });
    await worker.clock.advance(HOUR_MS);
    assertGreater(worker.runtime.kills, 0);
  });

  it("takes handlers that end one after another for life, though no receive returns", async () => {
    const worker = new WatchedWorker();
    await worker.fill(20);
    const loop = worker.loop(({ body }) => worker.clock.sleep(body % 2 ? 420_000 : 300_000), {
      concurrency: 2,
      prefetch: 18,
    });
    const group = worker.group(loop);
    const run = group.run({ waitTimeMs: 24 * HOUR_MS });
    await worker.clock.advance(2 * HOUR_MS);
    assertEquals([loop.counts.acknowledged, worker.runtime.kills], [20, 0]);
    await worker.clock.until(group.shutdown());
    await run;
  });
});
