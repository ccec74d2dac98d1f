import { describe, it } from "node:test";
import { assert, assertEquals, assertInstanceOf, assertRejects } from "@std/assert";
import { RestartBudget } from "../../src/lifecycle/group_options.ts";
import { GroupFailedError } from "../../src/lifecycle/drain_report.ts";
import type { Runnable } from "../../src/lifecycle/runnable.ts";
import { Bench } from "./_group.ts";
import { systemRandom } from "../../src/random.ts";

describe("a loop that fails", () => {
  it("a failed loop stops the others gracefully, and run() rejects with all errors and the report", async () => {
    const bench = new Bench();
    const group = bench.group([bench.failing("a", 1_000), bench.busy("b", 3_000)]);
    const error = await assertRejects(() => bench.clock.until(group.run()), GroupFailedError);
    assertEquals(bench.clock.monotonic(), 3_000, "b finished its step");
    assertInstanceOf(error, AggregateError);
    assertEquals(error.errors.map(({ message }) => message), ["a broke"]);
    const { report } = error;
    assertEquals([report.outcome, report.exitCode, report.reason.kind], ["failed", 1, "failure"]);
    assertEquals(report.loops.map(({ state }) => state), ["failed", "ended"]);
    assertEquals([bench.runtime.listening, bench.runtime.held, bench.clock.pending], [0, 0, 0]);
  });

  it("a failed loop stops loops that would run for ever", async () => {
    const bench = new Bench();
    const group = bench.group([bench.idle("forever"), bench.failing("crashing", 5)]);
    await assertRejects(() => bench.clock.until(group.run()), GroupFailedError, "crashing broke");
    assertEquals(bench.clock.monotonic(), 5);
  });

  it("a loop whose run() throws synchronously is treated as failed", async () => {
    const bench = new Bench();
    const rude: Runnable = {
      name: "rude",
      running: false,
      run: () => {
        throw new Error("not even a promise");
      },
      shutdown: () => Promise.resolve(true),
      [Symbol.asyncDispose]: () => Promise.resolve(),
    };
    const group = bench.group([rude, bench.idle("polite")]);
    await assertRejects(() => bench.clock.until(group.run()), GroupFailedError, "not even");
  });

  it("a failed loop is restarted after growing delays with onFailure: restart", async () => {
    const bench = new Bench();
    const starts: number[] = [];
    const loop = bench.loop("phoenix", () => {
      starts.push(bench.clock.monotonic());
      if (starts.length < 4) throw new Error("not yet");
      return false;
    });
    const states: string[] = [];
    const group = bench.group([loop], { onFailure: "restart", restart: { minBackoffMs: 100 } });
    group.on("loop", ({ state }) => states.push(state));
    const report = await bench.clock.until(group.run());
    assertEquals([report.exitCode, report.loops[0]?.restarts], [0, 3]);
    assertEquals(states.slice(-3), ["backing_off", "running", "ended"]);
    const pauses = starts.slice(1).map((at, i) => at - (starts[i] ?? 0));
    for (const [i, pause] of pauses.entries()) {
      const longest = 100 * 2 ** i;
      assert(pause >= longest / 2 && pause <= longest, `pause ${i} was ${pause}`);
    }
  });

  it("more than maxRestarts failures within withinMs stop the group", async () => {
    const bench = new Bench();
    const group = bench.group([bench.failing("hopeless", 1), bench.idle("other")], {
      onFailure: "restart",
      restart: { maxRestarts: 3 },
    });
    const error = await assertRejects(() => bench.clock.until(group.run()), GroupFailedError);
    assertEquals(error.report.loops.map(({ state }) => state), ["failed", "ended"]);
    assertEquals(error.report.loops[0]?.restarts, 3);
  });

  it("occasional failures are restarted for ever", () => {
    const budget = new RestartBudget({ maxRestarts: 2, withinMs: 1_000 });
    for (let now = 0; now < 100_000; now += 600) {
      assert(budget.nextPauseMs(now, systemRandom) !== undefined);
    }
    assertEquals(budget.nextPauseMs(99_601, systemRandom), undefined, "a third within a second");
  });

  it("the delay before a restart is at most maxBackoffMs", () => {
    const budget = new RestartBudget({ maxRestarts: Infinity, maxBackoffMs: 400 });
    const pauses = Array.from(
      { length: 6 },
      () => budget.nextPauseMs(0, { ...systemRandom, number: () => 1 }),
    );
    assertEquals(pauses, [100, 200, 400, 400, 400, 400]);
  });

  it("a stop does not wait for the backoff of a failed loop", async () => {
    const bench = new Bench();
    const group = bench.group([bench.failing("phoenix", 10)], {
      onFailure: "restart",
      restart: { minBackoffMs: 20_000 },
    });
    const run = group.run();
    await bench.clock.advance(100);
    assertEquals(group.health().loops[0]?.state, "backing_off");
    assertEquals(await bench.clock.until(group.shutdown()), true);
    assertEquals([bench.clock.monotonic(), bench.clock.pending], [100, 0]);
    assertEquals((await run).exitCode, 0);
  });

  it("the other loops continue with onFailure: ignore, and the exit code is 1", async () => {
    const bench = new Bench();
    const group = bench.group([bench.failing("optional", 10), bench.idle("main")], {
      onFailure: "ignore",
    });
    const run = group.run();
    await bench.clock.advance(60_000);
    assertEquals([group.running, group.health().ready], [true, true]);
    await bench.clock.until(group.shutdown());
    const report = await run;
    assertEquals([report.outcome, report.exitCode], ["failed", 1]);
  });

  it("a loop that fails during a stop is reported, and the others still stop", async () => {
    const bench = new Bench();
    const group = bench.group([bench.failing("a", 100), bench.busy("b", 200)]);
    const run = group.run();
    await bench.clock.settle();
    const stopped = group.shutdown();
    const error = await assertRejects(() => bench.clock.until(run), GroupFailedError);
    assertEquals(await stopped, true);
    assertEquals([error.report.reason.kind, bench.clock.monotonic()], ["shutdown", 200]);
  });

  it("a shutdown() that throws is reported as a problem, and the other loops still stop", async () => {
    const bench = new Bench();
    const real = bench.idle("broken");
    const broken: Runnable = {
      name: "broken",
      get running() {
        return real.running;
      },
      run: (options) => real.run(options),
      shutdown: () => Promise.reject(new Error("no shutdown today")),
      [Symbol.asyncDispose]: () => Promise.resolve(),
    };
    const other = bench.idle("other");
    const group = bench.group([broken, other], { shutdownTimeoutMs: 1_000 });
    const run = group.run();
    await bench.clock.settle();
    assertEquals(await bench.clock.until(group.shutdown()), false);
    const report = await run;
    assertEquals(report.loops.map(({ state }) => state), ["hung", "ended"]);
    assertEquals(report.problems.map(({ what }) => what), [
      `shutdown() of loop "broken" failed`,
    ]);
    assert(bench.clock.monotonic() <= 1_000);
    await real.shutdown();
  });
});
