import { afterEach, describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import { ShutdownCoordinator } from "../../src/lifecycle/shutdown_coordinator.ts";
import { Bench } from "./_group.ts";

describe("usage patterns", () => {
  afterEach(() => ShutdownCoordinator.reset());

  it("a single loop with signals", async () => {
    const bench = new Bench();
    const { clock, runtime } = bench;
    const coordinator = ShutdownCoordinator.install({ runtime, clock });
    const loop = bench.idle("analyst");
    coordinator.register(loop.shutdown);
    const run = loop.run();
    await clock.advance(100);
    runtime.send("SIGTERM");
    await clock.until(run);
    assertEquals(loop.running, false);
  });

  it("several loops in a group, until a signal", async () => {
    const bench = new Bench();
    const group = bench.group([bench.idle("main"), bench.idle("eval")]);
    const run = group.run();
    await bench.clock.advance(100);
    bench.runtime.send("SIGINT");
    assertEquals((await bench.clock.until(run)).exitCode, 0);
  });

  it("a group that ends with its block", async () => {
    const bench = new Bench();
    const loops = [bench.idle("main"), bench.busy("eval", 300)];
    let run: Promise<unknown>;
    {
      await using group = bench.group(loops);
      run = group.run();
      await bench.clock.advance(100);
      // The block cannot move the clock while it ends, so the clock moves by itself.
      bench.clock.schedule(0, () => bench.clock.advance(1_000));
    }
    assertEquals(loops.map(({ running }) => running), [false, false]);
    await run;
  });

  it("a stop by the program that handles an unclean result", async () => {
    const bench = new Bench();
    const loop = bench.busy("slow", 90_000);
    const run = loop.run({ maxIterations: 1 });
    await bench.clock.advance(100);
    const warnings: string[] = [];
    const success = await bench.clock.until(loop.shutdown({ timeoutMs: 60_000 }));
    if (!success) warnings.push("did not stop within its time");
    assertEquals(warnings.length, 1);
    await bench.clock.until(run);
  });

  it("a group with a watchdog and health", async () => {
    const bench = new Bench();
    const group = bench.group([bench.idle("main")], { watchdogThresholdMs: 720_000 });
    const run = group.run();
    await bench.clock.advance(100);
    assert(group.health().live && group.health().ready);
    assert(bench.runtime.thread !== undefined);
    await bench.clock.until(group.shutdown());
    await run;
  });
});
