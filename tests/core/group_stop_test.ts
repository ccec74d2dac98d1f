import { afterEach, describe, it } from "node:test";
import { assert, assertEquals, assertRejects } from "@std/assert";
import type { CancelledError } from "../../src/errors.ts";
import { ShutdownCoordinator } from "../../src/lifecycle/shutdown_coordinator.ts";
import type { Runnable } from "../../src/lifecycle/runnable.ts";
import { ExitError } from "../../src/testing/fake_runtime.ts";
import { Bench } from "./_group.ts";

describe("stopOrder", () => {
  it("loops with a lower stopOrder stop first, equal ones together", async () => {
    const bench = new Bench();
    const ends: string[] = [];
    const loop = (name: string, stopOrder: number, ms: number) =>
      bench.loop(name, async ({ sleep, stopping }) => {
        await sleep(60_000);
        if (!stopping.aborted) return;
        await bench.clock.sleep(ms);
        ends.push(`${name} at ${bench.clock.monotonic()}`);
      }, { stopOrder });
    const group = bench.group([loop("last", 10, 1), loop("a", -1, 500), loop("b", -1, 300)]);
    const run = group.run();
    await bench.clock.settle();
    assertEquals(await bench.clock.until(group.shutdown()), true);
    assertEquals(ends, ["b at 300", "a at 500", "last at 501"]);
    await run;
  });

  it("a loop that hangs leaves time for the loops after it", async () => {
    const bench = new Bench();
    let givenBack = 0;
    const late = bench.loop("late", async ({ sleep, stopping }) => {
      await sleep(60_000);
      if (!stopping.aborted) return;
      await bench.clock.sleep(500);
      givenBack = bench.clock.monotonic();
    }, { stopOrder: 1 });
    const group = bench.group([bench.stuck("early"), late], { shutdownTimeoutMs: 20_000 });
    const run = group.run();
    await bench.clock.settle();
    group.shutdown();
    const report = await bench.clock.until(run);
    assertEquals(report.loops.map(({ state }) => state), ["hung", "ended"]);
    assertEquals(givenBack, 18_500, "told a second before the resources's second");
    assert(bench.clock.monotonic() <= 20_000);
  });

  it("the shutdownTimeoutMs of a loop shortens its time and never extends it", async () => {
    const bench = new Bench();
    const quick = bench.obedient("quick", { shutdownTimeoutMs: 1_000 });
    const slow = bench.obedient("slow", { shutdownTimeoutMs: 90_000 });
    const group = bench.group([quick, slow], { shutdownTimeoutMs: 10_000 });
    const run = group.run();
    await bench.clock.settle();
    group.shutdown();
    await bench.clock.advance(900);
    assertEquals([quick.running, slow.running], [false, true]);
    await bench.clock.until(run);
    assert(bench.clock.monotonic() < 10_000);
  });
});

describe("unreadyDelayMs", () => {
  it("readiness turns off immediately, and the loops continue for unreadyDelayMs", async () => {
    const bench = new Bench();
    let steps = 0;
    const loop = bench.loop("server", async () => {
      steps++;
      await bench.clock.sleep(100);
    });
    const group = bench.group([loop], { unreadyDelayMs: 5_000 });
    const run = group.run();
    await bench.clock.advance(50);
    assertEquals(group.health().ready, true);
    bench.runtime.send("SIGTERM");
    await bench.clock.settle();
    assertEquals([group.health().ready, group.health().live], [false, true]);
    assertEquals(group.health().phase, "unready");
    await bench.clock.until(run);
    assertEquals([steps, bench.clock.monotonic()], [51, 5_100]);
    ShutdownCoordinator.reset();
  });

  it("Ctrl+C at a terminal skips unreadyDelayMs, and another SIGINT does not", async () => {
    for (const interactive of [true, false]) {
      const bench = new Bench({ interactive });
      const group = bench.group([bench.idle("server")], { unreadyDelayMs: 5_000 });
      const run = group.run();
      await bench.clock.settle();
      bench.runtime.send("SIGINT");
      const report = await bench.clock.until(run);
      assertEquals(report.stopMs, interactive ? 0 : 5_000);
      ShutdownCoordinator.reset();
    }
  });

  it("unreadyDelayMs is part of shutdownTimeoutMs", async () => {
    const bench = new Bench();
    const group = bench.group([bench.stuck("stuck")], {
      unreadyDelayMs: 5_000,
      shutdownTimeoutMs: 8_000,
    });
    const run = group.run();
    await bench.clock.settle();
    assertEquals(await bench.clock.until(group.shutdown()), false);
    const report = await bench.clock.until(run);
    assert(report.stopMs <= 8_000, `took ${report.stopMs}`);
  });
});

describe("a second signal", () => {
  afterEach(() => ShutdownCoordinator.reset());

  it("a second signal cancels the work of all loops immediately, and decides the exit code", async () => {
    const bench = new Bench();
    const reasons: unknown[] = [];
    const loop = (name: string, stopOrder: number) =>
      bench.loop(name, async ({ signal }) => {
        signal.addEventListener("abort", () =>
          reasons.push((signal.reason as CancelledError).reason));
        await bench.clock.sleep(Infinity, { signal });
      }, { stopOrder });
    const group = bench.group([loop("first", 0), loop("second", 1)]);
    const run = group.run();
    await bench.clock.settle();
    bench.runtime.send("SIGTERM");
    await bench.clock.advance(1_000);
    assertEquals(reasons, []);
    bench.runtime.send("SIGTERM");
    const report = await bench.clock.until(run);
    assertEquals(reasons, ["forced", "forced"]);
    assertEquals(bench.clock.monotonic(), 1_000);
    assertEquals([report.outcome, report.exitCode, report.forcedBy], ["forced", 143, "SIGTERM"]);
    assertEquals(report.phases.at(-2)?.reason, "a second signal, SIGTERM");
  });

  it("a second signal ends the unready delay", async () => {
    const bench = new Bench();
    const group = bench.group([bench.obedient("server")], { unreadyDelayMs: 20_000 });
    const run = group.run();
    await bench.clock.settle();
    bench.runtime.send("SIGTERM");
    await bench.clock.advance(500);
    bench.runtime.send("SIGINT");
    const report = await bench.clock.until(run);
    assertEquals([report.stopMs, report.exitCode], [500, 130]);
    const phases = report.phases.map(({ phase }) => phase);
    assertEquals(phases, ["starting", "running", "unready", "cancelling", "stopped"]);
  });

  it("a third signal ends the process although a loop hangs", async () => {
    const bench = new Bench();
    const group = bench.group([bench.stuck("stuck")]);
    const run = group.run();
    await bench.clock.settle();
    bench.runtime.send("SIGINT");
    await bench.clock.advance(300);
    bench.runtime.send("SIGINT");
    await bench.clock.advance(300);
    await assertRejects(
      () => Promise.resolve().then(() => bench.runtime.send("SIGINT")),
      ExitError,
    );
    assertEquals(bench.runtime.exitCodes, [130]);
    await bench.clock.until(run);
  });
});

describe("pause()", () => {
  it("a paused group takes no new work until resume, is not ready, and does not end", async () => {
    const bench = new Bench();
    let steps = 0;
    const loop = bench.loop("worker", async () => {
      steps++;
      await bench.clock.sleep(100);
    });
    const group = bench.group([loop, bench.idle("idle")]);
    const run = group.run();
    await bench.clock.advance(50);
    const drained = group.pause();
    assertEquals([group.health().ready, group.health().paused], [false, true]);
    await bench.clock.until(drained);
    assertEquals(bench.clock.monotonic(), 100, "a loop that pauses is quiet already");
    const before = steps;
    await bench.clock.advance(60_000);
    assertEquals([steps, group.running, group.health().live], [before, true, true]);
    group.resume();
    await bench.clock.advance(50);
    assertEquals([steps > before, group.health().ready], [true, true]);
    await bench.clock.until(group.shutdown());
    await run;
  });
});

describe("main()", () => {
  afterEach(() => ShutdownCoordinator.reset());

  const codeOf = async (bench: Bench, main: Promise<never>): Promise<number> => {
    const { code } = await assertRejects(() => bench.clock.until(main), ExitError);
    return code;
  };

  it("main() ends the process with 0 when drained", async () => {
    const bench = new Bench();
    const main = bench.group([bench.idle("worker")]).main();
    await bench.clock.settle();
    bench.runtime.send("SIGTERM");
    assertEquals(await codeOf(bench, main), 0);
  });

  it("main() ends the process with 1 when a loop failed", async () => {
    const bench = new Bench();
    assertEquals(await codeOf(bench, bench.group([bench.failing("a", 5)]).main()), 1);
  });

  it("main() ends the process with 1 when the group cannot run", async () => {
    const bench = new Bench();
    const resources = [{ name: "db", start: () => Promise.reject(new Error("down")), stop() {} }];
    assertEquals(await codeOf(bench, bench.group([bench.idle("a")], { resources }).main()), 1);
  });

  it("main() ends with 124 at the deadline, after hung loops have released their messages", async () => {
    const bench = new Bench();
    const order: string[] = [];
    const real = bench.stuck("stuck");
    const stuck: Runnable = Object.assign(real, {
      abandon: () => {
        order.push(`abandoned after ${bench.runtime.exitCodes.length} exits`);
        return Promise.resolve();
      },
    });
    const main = bench.group([stuck, bench.idle("fine")], { shutdownTimeoutMs: 5_000 }).main();
    await bench.clock.settle();
    bench.runtime.send("SIGTERM");
    assertEquals(await codeOf(bench, main), 124);
    assertEquals(order, ["abandoned after 0 exits"]);
    assert(bench.clock.monotonic() <= 5_000);
  });

  it("main() calls and awaits shutdown callbacks also when it ends without a signal", async () => {
    for (const end of ["finished", "failure"]) {
      const bench = new Bench();
      const { clock, runtime } = bench;
      const events: string[] = [];
      ShutdownCoordinator.install({ runtime, clock }).register(async ({ kind }) => {
        await clock.sleep(1_000);
        events.push(`closed after ${kind}`);
      });
      const loop = end === "failure" ? bench.failing("a", 5) : bench.busy("a", 5);
      const main = bench.group([loop]).main({ maxIterations: 1 });
      assertEquals(await codeOf(bench, main), end === "failure" ? 1 : 0);
      assertEquals(events, [`closed after ${end}`]);
      ShutdownCoordinator.reset();
    }
  });

  it("main() waits for other shutdown callbacks until the deadline and names those that never end", async () => {
    const bench = new Bench();
    const { clock, runtime } = bench;
    const messages: string[] = [];
    const coordinator = ShutdownCoordinator.install({ runtime, clock });
    let closed = false;
    coordinator.register(async function closeCache() {
      await clock.sleep(1_000);
      closed = true;
    });
    coordinator.register(function closeDatabase() {
      return new Promise(() => {});
    });
    const log = { debug() {}, info() {}, warn() {}, error: (text: string) => messages.push(text) };
    const main = bench.group([bench.idle("worker")], { log, shutdownTimeoutMs: 5_000 }).main();
    await clock.settle();
    runtime.send("SIGTERM");
    assertEquals(await codeOf(bench, main), 124);
    assertEquals([closed, clock.monotonic()], [true, 5_000]);
    assert(messages.join().includes("shutdown callback closeDatabase"), messages.join());
  });
});
