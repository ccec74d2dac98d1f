import { afterEach, describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { ShutdownCoordinator } from "../../src/lifecycle/shutdown_coordinator.ts";
import { FakeRuntime } from "../../src/testing/fake_runtime.ts";
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

  it("simulated processes with globals of their own have their own signals and exit codes", async () => {
    const bench = new Bench();
    const runtimes = [new FakeRuntime({ globals: {} }), new FakeRuntime({ globals: {} })] as const;
    const [first, second] = runtimes;
    const groups = [
      bench.group([bench.idle("idle")], { runtime: first }),
      bench.group([bench.stuck("stuck")], { runtime: second, shutdownTimeoutMs: 1_000 }),
    ];
    const ended = groups.map((group) => group.main().catch(() => {}));
    await bench.clock.settle();
    first.send("SIGTERM");
    await bench.clock.until(ended[0]!);
    assertEquals([first.exitCodes, second.exitCodes, groups[1]!.running], [[0], [], true]);
    assertEquals(ShutdownCoordinator.get(), undefined);
    second.send("SIGTERM");
    await bench.clock.until(ended[1]!);
    assertEquals([first.exitCodes, second.exitCodes], [[0], [124]]);
  });

  it("an ended run removes the signal listeners of its simulated process", async () => {
    const bench = new Bench();
    const runtime = new FakeRuntime({ globals: {} });
    const run = bench.group([bench.idle("idle")], { runtime }).run({ maxIterations: 1 });
    await bench.clock.settle();
    assertEquals(runtime.listening, 2);
    await bench.clock.until(run);
    assertEquals(runtime.listening, 0);
  });
});
