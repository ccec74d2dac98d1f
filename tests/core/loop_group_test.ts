import { afterEach, describe, it } from "node:test";
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { LoopGroup } from "../../src/group/loop_group.ts";
import type { Runnable, RunOptions } from "../../src/lifecycle/runnable.ts";
import { ShutdownCoordinator } from "../../src/lifecycle/shutdown_coordinator.ts";
import { lifecycleCases } from "../../src/testing/lifecycle_cases.ts";
import { Bench } from "./_group.ts";

describe("LoopGroup", () => {
  afterEach(() => ShutdownCoordinator.reset());

  for (const { name, run } of lifecycleCases) {
    it(name, () =>
      run(() => {
        const bench = new Bench();
        const group = bench.group([bench.idle("a"), bench.idle("b")]);
        const runnable: Runnable = {
          name: "group",
          get running() {
            return group.running;
          },
          run: async (options?: RunOptions) => void await group.run(options),
          shutdown: group.shutdown,
          [Symbol.asyncDispose]: () => group[Symbol.asyncDispose](),
        };
        const { clock, runtime } = bench;
        const leftovers = () => runtime.listening + runtime.held + (runtime.thread ? 1 : 0);
        return { clock, runnable, leftovers };
      }));
  }

  it("a group runs its loops together and stops them together", async () => {
    const bench = new Bench();
    const loops = [bench.idle("main"), bench.idle("eval")];
    const group = bench.group(loops);
    const run = group.run();
    await bench.clock.settle();
    assertEquals(loops.map(({ running }) => running), [true, true]);
    assertEquals(await bench.clock.until(group.shutdown({ timeoutMs: 5_000 })), true);
    assertEquals(loops.map(({ running }) => running), [false, false]);
    const report = await run;
    assertEquals([report.outcome, report.exitCode, report.reason.kind], ["drained", 0, "shutdown"]);
  });

  it("a group ends when every loop has ended, and passes the run options to its loops", async () => {
    const bench = new Bench();
    const group = bench.group([bench.busy("short", 10), bench.busy("long", 500)]);
    const report = await bench.clock.until(group.run({ maxIterations: 2 }));
    assertEquals(bench.clock.monotonic(), 1_000);
    assertEquals([report.outcome, report.reason.kind, report.stopMs], ["drained", "finished", 0]);
    assertEquals(report.phases.map(({ phase }) => phase), ["starting", "running", "stopped"]);
  });

  it("an empty group ends immediately", async () => {
    const bench = new Bench();
    const report = await bench.clock.until(bench.group([]).run());
    assertEquals([report.exitCode, report.loops.length, bench.clock.monotonic()], [0, 0, 0]);
  });

  it("a stop takes as long as the slowest loop, not the sum of all loops", async () => {
    const bench = new Bench();
    const loops = Array.from({ length: 10 }, (_, i) => bench.busy(`loop-${i}`, 9_000));
    const group = bench.group(loops);
    const run = group.run();
    await bench.clock.advance(1_000);
    assertEquals(await bench.clock.until(group.shutdown()), true);
    assertEquals(bench.clock.monotonic(), 9_000);
    await run;
  });

  it("all loops are told to stop at the same time although the first one hangs", async () => {
    const bench = new Bench();
    const told: string[] = [];
    const watched = (name: string) =>
      bench.loop(name, async ({ sleep, stopping }) => {
        await sleep(60_000);
        if (stopping.aborted) told.push(`${name} at ${bench.clock.monotonic()}`);
      });
    const group = bench.group([bench.stuck("stuck"), watched("second"), watched("third")]);
    const run = group.run();
    await bench.clock.advance(100);
    assertEquals(await bench.clock.until(group.shutdown({ timeoutMs: 10_000 })), false);
    assertEquals(told, ["second at 100", "third at 100"]);
    await bench.clock.until(run);
  });

  it("run() returns at the deadline, and the report names the loops that hung", async () => {
    const bench = new Bench();
    const group = bench.group([bench.stuck("stuck"), bench.idle("fine")], {
      shutdownTimeoutMs: 10_000,
    });
    const run = group.run();
    await bench.clock.advance(1_000);
    bench.runtime.send("SIGTERM");
    const report = await bench.clock.until(run);
    assert(bench.clock.monotonic() <= 11_000, `ended at ${bench.clock.monotonic()}`);
    assertEquals([report.outcome, report.exitCode], ["timed_out", 124]);
    const [stuck, fine] = report.loops;
    assertEquals([stuck?.state, stuck?.inFlight.map(({ id }) => id)], ["hung", ["step 1"]]);
    assertEquals(fine?.state, "ended");
    assertEquals(group.running, false);
  });

  it("work is cancelled before the deadline, so that it can be released", async () => {
    const bench = new Bench();
    const group = bench.group([bench.obedient("obedient")], { shutdownTimeoutMs: 10_000 });
    const run = group.run();
    await bench.clock.settle();
    const stopped = group.shutdown();
    assertEquals(await bench.clock.until(stopped), true);
    assert(bench.clock.monotonic() < 10_000, "before the deadline");
    const report = await run;
    assertEquals(report.phases.map(({ phase }) => phase), [
      "starting",
      "running",
      "unready",
      "draining",
      "cancelling",
      "stopped",
    ]);
    assertEquals([report.outcome, report.exitCode], ["drained", 0]);
  });

  it("a group stops on SIGTERM, reports the reason, and leaves no listener registered", async () => {
    const bench = new Bench();
    const group = bench.group([bench.busy("worker", 2_000)]);
    const phases: string[] = [];
    group.on("phase", ({ phase, reason }) => phases.push(`${phase}: ${reason}`));
    const run = group.run();
    await bench.clock.advance(500);
    bench.runtime.send("SIGTERM");
    const report = await bench.clock.until(run);
    assertEquals(bench.clock.monotonic(), 2_000, "the step in flight was finished");
    assertEquals([report.reason.signal, report.exitCode], ["SIGTERM", 0]);
    assertEquals(phases, [
      "starting: run() was called",
      "running: the resources are ready",
      "unready: SIGTERM",
      "draining: SIGTERM",
      "stopped: SIGTERM",
    ]);
    assertEquals([bench.runtime.held, bench.runtime.thread], [0, undefined]);
  });

  it("repeated runs leave no listener registered", async () => {
    const bench = new Bench();
    const coordinator = ShutdownCoordinator.install({
      runtime: bench.runtime,
      clock: bench.clock,
    });
    const group = bench.group([bench.busy("worker", 10)]);
    for (let i = 0; i < 3; i++) await bench.clock.until(group.run({ maxIterations: 1 }));
    assertEquals(coordinator.registered, 0);
  });

  it("signals have their default effect after a run without one, unless a program installed the coordinator", async () => {
    const bench = new Bench();
    const group = bench.group([bench.busy("worker", 10)]);
    const run = group.run({ maxIterations: 1 });
    assertEquals(bench.runtime.listening, 2);
    await bench.clock.until(run);
    assertEquals([bench.runtime.listening, ShutdownCoordinator.get()], [0, undefined]);

    ShutdownCoordinator.install({ runtime: bench.runtime, clock: bench.clock });
    await bench.clock.until(group.run({ maxIterations: 1 }));
    assertEquals(bench.runtime.listening, 2);
  });

  it("two groups share the signals until the second has ended", async () => {
    const bench = new Bench();
    const short = bench.group([bench.busy("short", 10)]).run({ maxIterations: 1 });
    const long = bench.group([bench.idle("long")]).run();
    await bench.clock.until(short);
    assertEquals(bench.runtime.listening, 2);
    bench.runtime.send("SIGTERM");
    assertEquals((await bench.clock.until(long)).reason.signal, "SIGTERM");
  });

  it("a group with installSignals: false listens to no signal", async () => {
    const bench = new Bench();
    const group = bench.group([bench.idle("worker")]);
    const run = group.run({ installSignals: false });
    await bench.clock.settle();
    assertEquals(bench.runtime.listening, 0);
    await bench.clock.until(group.shutdown());
    await run;
  });

  it("run() returns immediately after an earlier signal", async () => {
    const bench = new Bench();
    const { clock, runtime } = bench;
    ShutdownCoordinator.install({ runtime, clock });
    runtime.send("SIGTERM");
    let steps = 0;
    const loop = bench.loop("worker", () => void steps++);
    const report = await clock.until(bench.group([loop]).run());
    assertEquals([steps, report.exitCode, report.reason.signal], [0, 0, "SIGTERM"]);
    assertEquals(report.loops[0]?.state, "waiting");
  });

  it("a group that cannot listen to signals has not started and can be run again", async () => {
    const bench = new Bench();
    const { onSignal } = bench.runtime;
    bench.runtime.onSignal = () => {
      throw new TypeError("no signals here");
    };
    const group = bench.group([bench.busy("worker", 10)]);
    await assertRejects(() => group.run(), TypeError, "no signals here");
    assertEquals([group.running, bench.runtime.held], [false, 0]);
    bench.runtime.onSignal = onSignal;
    assertEquals((await bench.clock.until(group.run({ maxIterations: 1 }))).exitCode, 0);
  });

  it("a second run() at a time is refused, and the first run continues", async () => {
    const bench = new Bench();
    const group = bench.group([bench.idle("worker")]);
    const run = group.run();
    await assertRejects(() => group.run(), Error, "already running");
    assertEquals(group.running, true);
    await bench.clock.until(group.shutdown());
    await run;
  });

  it("a change of the wall clock does not move the deadline", async () => {
    const bench = new Bench();
    const group = bench.group([bench.busy("worker", 5_000)]);
    const run = group.run();
    await bench.clock.advance(100);
    const stopped = group.shutdown({ timeoutMs: 8_000 });
    bench.clock.stepWallClock(3_600_000);
    assertEquals(await bench.clock.until(stopped), true);
    assertEquals((await run).stopMs, 4_900);
  });

  it("a listener that throws does not affect the group", async () => {
    const bench = new Bench();
    const group = bench.group([bench.idle("worker")]);
    const seen: string[] = [];
    group.on("phase", () => {
      throw new Error("bad listener");
    });
    const remove = group.on("phase", ({ phase }) => seen.push(phase));
    const run = group.run();
    await bench.clock.settle();
    assertEquals(seen, ["starting", "running"]);
    remove();
    await bench.clock.until(group.shutdown());
    await run;
    assertEquals(seen.length, 2, "removed means removed");
  });

  it("invalid options are refused before anything starts", () => {
    const bench = new Bench();
    const loop = bench.idle("worker");
    assertThrows(() => new LoopGroup([{}] as never), TypeError, "loops[0] is not a Runnable");
    assertThrows(() => new LoopGroup([loop, null] as never), TypeError, "loops[1]");
    assertThrows(() => new LoopGroup(loop as never), TypeError, "expected an array");
    assertThrows(() => new LoopGroup([loop, bench.idle("worker")]), TypeError, `"worker"`);
    for (const shutdownTimeoutMs of [-1, NaN]) {
      assertThrows(() => new LoopGroup([loop], { shutdownTimeoutMs }), RangeError);
    }
    const text = "30" as never;
    assertThrows(() => new LoopGroup([loop], { shutdownTimeoutMs: text }), TypeError, 'got "30"');
    assertThrows(() => new LoopGroup([loop], { unreadyDelayMs: 30_000 }), RangeError, "30000");
    assertThrows(() => new LoopGroup([loop], { watchdogThresholdMs: 0 }), RangeError, "got 0");
    assertThrows(() => new LoopGroup([loop], { watchdogIntervalMs: NaN }), RangeError, "NaN");
    assertThrows(() => new LoopGroup([loop], { onFailure: "panic" as never }), TypeError, "panic");
    const restart = { maxRestarts: -1 };
    assertThrows(() => new LoopGroup([loop], { restart }), RangeError, "maxRestarts");
    assertThrows(
      () => new LoopGroup([loop], { resources: [{} as never] }),
      TypeError,
      "resources[0]",
    );
  });
});
