import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import type { Runnable } from "../../src/lifecycle/runnable.ts";
import { Bench } from "./_group.ts";

describe("health", () => {
  it("a group is ready only while it runs", async () => {
    const bench = new Bench();
    const group = bench.group([bench.busy("worker", 100)]);
    assertEquals([group.health().ready, group.health().phase], [false, "starting"]);
    const run = group.run({ maxIterations: 1 });
    assertEquals(group.health().ready, false, "resources is still starting");
    await bench.clock.advance(30);
    assertEquals(group.health(), {
      live: true,
      ready: true,
      phase: "running",
      phases: ["starting", "running"],
      paused: false,
      loops: [{
        name: "worker",
        state: "running",
        ready: true,
        inFlight: 1,
        oldestMs: 30,
        heartbeatAgeMs: 30,
        restarts: 0,
      }],
    });
    await bench.clock.until(run);
    assertEquals([group.health().ready, group.health().phase], [false, "stopped"]);
  });

  it("no loop is ready once the group drains", async () => {
    const bench = new Bench();
    const group = bench.group([bench.busy("busy", 100), bench.idle("idle")], {
      unreadyDelayMs: 10,
    });
    const readiness = () => group.health().loops.map(({ ready }) => ready);
    assertEquals(readiness(), [false, false], "nothing runs yet");
    const run = group.run();
    await bench.clock.advance(5);
    assertEquals(readiness(), [true, true]);
    const stopped = group.shutdown();
    await bench.clock.advance(5);
    assertEquals([group.health().phase, ...readiness()], ["unready", true, true], "it still works");
    await bench.clock.advance(10);
    assertEquals([group.health().phase, ...readiness()], ["draining", false, false]);
    await bench.clock.until(stopped);
    await run;
    assertEquals([group.health().phase, ...readiness()], ["stopped", false, false]);
  });

  it("health lists only the phases that the stop went through", async () => {
    const bench = new Bench();
    const group = bench.group([bench.idle("idle")]);
    assertEquals(group.health().phases, []);
    const run = group.run();
    await bench.clock.settle();
    await bench.clock.until(group.shutdown());
    await run;
    assertEquals(group.health().phases, ["starting", "running", "unready", "draining", "stopped"]);
  });

  it("health has the outcome of the run while the first resources still stop", async () => {
    const bench = new Bench();
    const seen: unknown[] = [];
    const group = bench.group([bench.idle("idle")], {
      resources: [{ name: "database", stop: () => void seen.push(group.health().end) }],
    });
    const run = group.run();
    await bench.clock.settle();
    assertEquals(group.health().end, undefined);
    await bench.clock.until(group.shutdown());
    await run;
    assertEquals(seen, [undefined], "resources can still change it");
    assertEquals(group.health().end, { outcome: "drained", exitCode: 0 });
    const again = group.run();
    await bench.clock.settle();
    assertEquals(group.health().end, undefined, "the next run has not ended");
    await bench.clock.until(group.shutdown());
    await again;
  });

  it("a loop whose engine is unavailable makes the group unready, not dead", async () => {
    const bench = new Bench();
    const loop: Runnable & { ready: boolean } = Object.assign(bench.idle("worker"), {
      ready: false,
    });
    const group = bench.group([loop]);
    const run = group.run();
    await bench.clock.settle();
    assertEquals([group.health().ready, group.health().live], [false, true]);
    loop.ready = true;
    assertEquals(group.health().ready, true);
    await bench.clock.until(group.shutdown());
    await run;
  });

  it("a missing heartbeat turns readiness off first, and liveness at the threshold of the watchdog", async () => {
    const bench = new Bench();
    const group = bench.group([bench.stuck("stuck")], { watchdogThresholdMs: 60_000 });
    group.run({ installSignals: false });
    await bench.clock.advance(30_000);
    assertEquals([group.health().ready, group.health().live], [true, true]);
    await bench.clock.advance(1);
    assertEquals([group.health().ready, group.health().live], [false, true]);
    await bench.clock.advance(30_000);
    assertEquals([group.health().ready, group.health().live], [false, false]);
    group.shutdown({ timeoutMs: 0 });
    await bench.clock.advance(1);
  });
});
