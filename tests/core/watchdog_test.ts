import { afterEach, describe, it } from "node:test";
import { assert, assertEquals, assertThrows } from "@std/assert";
import { Heartbeat } from "../../src/lifecycle/watchdog.ts";
import { ShutdownCoordinator } from "../../src/lifecycle/shutdown_coordinator.ts";
import { Watchdog } from "../../src/lifecycle/watchdog.ts";
import { silentLog } from "../../src/log.ts";
import { Bench } from "./_group.ts";

const MINUTE = 60_000;

describe("Watchdog", () => {
  afterEach(() => ShutdownCoordinator.reset());

  it("the watchdog names a loop without heartbeat and ends the process", async () => {
    const bench = new Bench();
    const events: string[] = [];
    const log = {
      debug() {},
      info() {},
      warn() {},
      error: (text: string) => void events.push(text),
    };
    const group = bench.group([bench.stuck("stuck"), bench.idle("fine")], { log });
    group.on(
      "stall",
      ({ stalled }) =>
        events.push(`stall of ${stalled.map(({ name }) => name)}, ${bench.runtime.kills} kills`),
    );
    group.run();
    await bench.clock.advance(12 * MINUTE);
    assertEquals(bench.runtime.kills, 0);
    await bench.clock.advance(MINUTE);
    assertEquals(bench.runtime.kills, 1);
    assertEquals(events, [
      `no sign of life from "stuck" (780000 ms): ending the process`,
      "stall of stuck, 0 kills",
    ]);
  });

  it("the watchdog logs that no thread can start, and still watches the loops", async () => {
    const bench = new Bench();
    const error = new Error("no threads here");
    bench.runtime.watchEventLoop = () => {
      throw error;
    };
    const warnings: unknown[] = [];
    const warn = (...record: unknown[]) => void warnings.push(record);
    const group = bench.group([bench.stuck("stuck")], { log: { ...silentLog, warn } });
    group.run();
    await bench.clock.advance(13 * MINUTE);
    assertEquals(warnings, [[
      "The watchdog cannot start its thread and will not notice a blocked event loop",
      { error },
    ]]);
    assertEquals(bench.runtime.kills, 1);
  });

  it("a loop that beats during a long step is not stalled", async () => {
    const bench = new Bench();
    const loop = bench.loop("long", async ({ beat }) => {
      for (let i = 0; i < 60; i++) {
        await bench.clock.sleep(5 * MINUTE);
        beat();
      }
    });
    await bench.clock.until(bench.group([loop]).run({ maxIterations: 1 }));
    assertEquals([bench.runtime.kills, bench.clock.monotonic()], [0, 300 * MINUTE]);
  });

  it("a sleeping or paused loop is not stalled", async () => {
    const bench = new Bench();
    const hourly = bench.loop("hourly", ({ sleep }) => sleep(60 * MINUTE));
    const drained = bench.busy("drained", MINUTE);
    const group = bench.group([hourly, drained]);
    const run = group.run();
    await bench.clock.settle();
    await bench.clock.until(drained.pause());
    await bench.clock.advance(600 * MINUTE);
    assertEquals(bench.runtime.kills, 0);
    assertEquals(group.health().loops.map(({ heartbeatAgeMs }) => heartbeatAgeMs), [0, 0]);
    await bench.clock.until(group.shutdown());
    await run;
  });

  it("an ended loop is not stalled", async () => {
    const bench = new Bench();
    const group = bench.group([bench.loop("once", () => false), bench.idle("long")]);
    const run = group.run();
    await bench.clock.advance(60 * MINUTE);
    assertEquals(bench.runtime.kills, 0);
    assertEquals(group.health().loops.map(({ state }) => state), ["ended", "running"]);
    assert(group.health().live && group.health().ready);
    await bench.clock.until(group.shutdown());
    await run;
  });

  it("a loop that waits for its restart is not stalled", async () => {
    const bench = new Bench();
    const group = bench.group([bench.failing("phoenix", 1)], {
      onFailure: "restart",
      restart: { minBackoffMs: 60 * MINUTE, maxBackoffMs: 60 * MINUTE },
    });
    const run = group.run();
    await bench.clock.advance(20 * MINUTE);
    assertEquals(bench.runtime.kills, 0);
    await bench.clock.until(group.shutdown());
    await run;
  });

  it("the time in which the process was suspended does not count", async () => {
    const bench = new Bench();
    const group = bench.group([bench.idle("worker"), bench.busy("slow", 2 * MINUTE)]);
    const run = group.run();
    await bench.clock.advance(30_000);
    await bench.clock.suspend(60 * MINUTE);
    await bench.clock.advance(30 * MINUTE);
    assertEquals(bench.runtime.kills, 0);
    await bench.clock.until(group.shutdown());
    await run;
  });

  it("a stalled process is ended also after a suspension", async () => {
    const bench = new Bench();
    bench.group([bench.stuck("stuck")]).run();
    await bench.clock.advance(6 * MINUTE);
    await bench.clock.suspend(60 * MINUTE);
    await bench.clock.advance(14 * MINUTE);
    assert(bench.runtime.kills > 0);
  });

  it("the watchdog sends its thread the heartbeats of the loops", async () => {
    const bench = new Bench();
    const group = bench.group([bench.idle("worker")]);
    const run = group.run();
    await bench.clock.advance(3 * MINUTE);
    const thread = bench.runtime.thread;
    assertEquals([thread?.thresholdMs, thread?.intervalMs], [12 * MINUTE, MINUTE]);
    assertEquals(thread?.beats.length, 5, "at the start, when the loop began, and every minute");
    assertEquals(thread?.beats.at(-1)?.map(({ name }) => name), ["worker"]);
    await bench.clock.until(group.shutdown());
    await run;
    assertEquals([bench.runtime.thread, bench.clock.pending], [undefined, 0]);
  });

  it("the watchdog works while the group drains", async () => {
    const bench = new Bench();
    const group = bench.group([bench.stuck("stuck")], { shutdownTimeoutMs: 60 * MINUTE });
    group.run();
    await bench.clock.advance(MINUTE);
    group.shutdown();
    await bench.clock.advance(13 * MINUTE);
    assert(bench.runtime.kills > 0);
  });

  it("a group without a threshold has no watchdog", async () => {
    const bench = new Bench();
    const group = bench.group([bench.stuck("stuck")], {
      watchdogThresholdMs: false,
      shutdownTimeoutMs: 10,
    });
    const run = group.run();
    await bench.clock.advance(60 * MINUTE);
    assertEquals([bench.runtime.kills, bench.runtime.thread], [0, undefined]);
    group.shutdown();
    await bench.clock.until(run);
  });

  it("the watchdog checks at least twice within its threshold", async () => {
    const bench = new Bench();
    await using watchdog = new Watchdog({
      thresholdMs: 1_000,
      runtime: bench.runtime,
      clock: bench.clock,
      log: { debug() {}, info() {}, warn() {}, error() {} },
    });
    watchdog.watch("silent", new Heartbeat(bench.clock));
    watchdog.start();
    watchdog.start();
    await bench.clock.advance(1_500);
    assertEquals(bench.runtime.kills, 1);
  });

  it("a watchdog can be stopped twice and before its start", async () => {
    const { runtime, clock } = new Bench();
    const watchdog = new Watchdog({ runtime, clock });
    await watchdog.stop();
    watchdog.start();
    await watchdog.stop();
    await watchdog.stop();
    assertEquals([clock.pending, runtime.thread], [0, undefined]);
  });

  it("an invalid threshold is refused", () => {
    for (const thresholdMs of [0, -1, NaN, Infinity]) {
      assertThrows(() => new Watchdog({ thresholdMs }), RangeError, String(thresholdMs));
    }
  });
});
