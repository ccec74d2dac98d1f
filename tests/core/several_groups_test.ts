import { afterEach, describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { ShutdownCoordinator } from "../../src/lifecycle/shutdown_coordinator.ts";
import { Bench } from "./_group.ts";

describe("several groups with main() in one process", () => {
  afterEach(() => ShutdownCoordinator.reset());

  /** Runs both to the end of the process. */
  const run = async (bench: Bench, ...groups: ReturnType<Bench["group"]>[]) => {
    const ended = Promise.race(groups.map((group) => group.main().catch(() => {})));
    await bench.clock.settle();
    return ended;
  };

  it("two groups end the process once, with exit code 0, when both have drained", async () => {
    const bench = new Bench();
    const slow = bench.loop("slow", ({ stopping, sleep }) => {
      return stopping.aborted ? undefined : sleep(60_000).then(() => bench.clock.sleep(2_000));
    });
    const groups = [bench.group([bench.idle("quick")]), bench.group([slow])];
    const ended = run(bench, ...groups);
    await bench.clock.settle();
    bench.runtime.send("SIGTERM");
    await bench.clock.advance(1_999);
    assertEquals([groups[0]!.running, bench.runtime.exitCodes], [false, []]);
    await bench.clock.until(ended);
    assertEquals(bench.clock.monotonic(), 2_000);
    assertEquals(bench.runtime.exitCodes, [0]);
  });

  it("a group with a longer deadline can use it", async () => {
    const bench = new Bench();
    const groups = [
      bench.group([bench.idle("quick")], { shutdownTimeoutMs: 1_000 }),
      bench.group([bench.busy("slow", 5_000)], { shutdownTimeoutMs: 10_000 }),
    ];
    const ended = run(bench, ...groups);
    await bench.clock.settle();
    bench.runtime.send("SIGTERM");
    await bench.clock.until(ended);
    assertEquals(bench.clock.monotonic(), 5_000);
    assertEquals([bench.runtime.exitCodes, groups[0]!.outcomes.drained], [[0], 1]);
  });

  it("all groups stop when one has failed, and the worst exit code wins", async () => {
    const bench = new Bench();
    const groups = [
      bench.group([bench.stuck("stuck")], { shutdownTimeoutMs: 1_000 }),
      bench.group([bench.failing("failing", 5)]),
      bench.group([bench.idle("idle")]),
    ];
    await bench.clock.until(run(bench, ...groups));
    assertEquals(bench.runtime.exitCodes, [1]);
    assertEquals(groups.map(({ running }) => running), [false, false, false]);
  });

  it("main() waits for a group with run() as for any shutdown callback", async () => {
    const bench = new Bench();
    const other = bench.group([bench.busy("slow", 5_000)]);
    const report = other.run();
    const ended = run(bench, bench.group([bench.idle("quick")]));
    await bench.clock.settle();
    bench.runtime.send("SIGTERM");
    await bench.clock.until(ended);
    assertEquals([(await report).outcome, bench.runtime.exitCodes], ["drained", [0]]);
  });
});
