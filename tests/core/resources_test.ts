import { afterEach, describe, it } from "node:test";
import { assertEquals, assertRejects } from "@std/assert";
import { ShutdownCoordinator } from "../../src/lifecycle/shutdown_coordinator.ts";
import { InMemoryMailbox } from "../../src/mailbox/in_memory_mailbox.ts";
import type { Resource } from "../../src/lifecycle/resources.ts";
import { Bench } from "./_group.ts";

describe("resources", () => {
  afterEach(() => ShutdownCoordinator.reset());

  const noting = (events: string[], name: string, more: Partial<Resource> = {}): Resource => ({
    name,
    start: () => void events.push(`${name} starts`),
    stop: () => void events.push(`${name} stops`),
    ...more,
  });

  it("resources start in order before the loops and stop in reverse order after them", async () => {
    const bench = new Bench();
    const events: string[] = [];
    const loop = bench.loop("loop", async ({ sleep }) => {
      events.push("loop starts");
      await sleep(60_000);
      events.push("loop stops");
    });
    const resources = [noting(events, "database"), noting(events, "server")];
    const group = bench.group([loop], { resources });
    const run = group.run();
    await bench.clock.settle();
    await bench.clock.until(group.shutdown());
    await run;
    assertEquals(events, [
      "database starts",
      "server starts",
      "loop starts",
      "loop stops",
      "server stops",
      "database stops",
    ]);
  });

  it("a resource may be any named disposable, such as a mailbox", async () => {
    const bench = new Bench();
    const mailbox = new InMemoryMailbox("orders", { clock: bench.clock });
    const loop = bench.loop("loop", () => assertEquals(mailbox.closed, false));
    const group = bench.group([loop], { resources: [mailbox] });
    await bench.clock.until(group.run({ maxIterations: 1 }));
    assertEquals(mailbox.closed, true);
  });

  it("a resource that cannot start ends the run, and the started ones stop", async () => {
    const bench = new Bench();
    const events: string[] = [];
    const start = () => Promise.reject(new Error("port 8080 is taken"));
    const resources = [noting(events, "database"), noting(events, "server", { start })];
    const group = bench.group([bench.idle("loop")], { resources });
    await assertRejects(
      () => bench.clock.until(group.run()),
      Error,
      `Resource "server" could not start: Error: port 8080 is taken`,
    );
    assertEquals(events, ["database starts", "database stops"]);
    const { listening, held, thread } = bench.runtime;
    assertEquals([listening, held, thread, bench.clock.pending], [0, 0, undefined, 0]);
    assertEquals(group.running, false);
  });

  it("started resources have the full time to stop when another fails after a slow start", async () => {
    const bench = new Bench();
    const events: string[] = [];
    const { clock } = bench;
    const resources = [
      noting(events, "database", {
        async stop({ signal }) {
          await clock.sleep(3_000);
          events.push(signal.aborted ? "database was cut off" : "database stops");
        },
      }),
      noting(events, "server", {
        async start() {
          await clock.sleep(60_000);
          throw new Error("port 8080 is taken");
        },
      }),
    ];
    const group = bench.group([bench.idle("loop")], { resources, shutdownTimeoutMs: 5_000 });
    await assertRejects(() => clock.until(group.run()), Error, "port 8080 is taken");
    assertEquals([events, clock.monotonic()], [["database starts", "database stops"], 63_000]);
  });

  it("a signal during a slow start ends the run before any loop starts", async () => {
    const bench = new Bench();
    const events: string[] = [];
    const start = async () => {
      await bench.clock.sleep(3_000);
      events.push("database is ready");
    };
    const resources = [noting(events, "database", { start }), noting(events, "server")];
    const loop = bench.loop("loop", () => void events.push("loop starts"));
    const run = bench.group([loop], { resources }).run();
    await bench.clock.advance(1_000);
    bench.runtime.send("SIGTERM");
    const report = await bench.clock.until(run);
    assertEquals(events, ["database is ready", "database stops"]);
    assertEquals([report.exitCode, report.loops[0]?.state], [0, "waiting"]);
  });

  it("a start that never ends is bounded by the deadline and named in the report", async () => {
    const bench = new Bench();
    const start = () => new Promise(() => {});
    const resources = [{ name: "database", start, stop() {} }];
    const run = bench.group([bench.idle("loop")], { resources, shutdownTimeoutMs: 5_000 }).run();
    await bench.clock.advance(1_000);
    bench.runtime.send("SIGTERM");
    const report = await bench.clock.until(run);
    assertEquals([report.exitCode, report.unfinished], [124, [`resource "database"`]]);
    assertEquals(report.stopMs <= 5_000, true);
  });

  it("a resource that never stops is aborted and named, and the later ones still stop", async () => {
    const bench = new Bench();
    const events: string[] = [];
    const stop = ({ signal }: { signal: AbortSignal }) => {
      signal.addEventListener("abort", () => events.push("server is told that the time is up"));
      return new Promise(() => {});
    };
    const resources = [noting(events, "database"), noting(events, "server", { stop })];
    const group = bench.group([bench.idle("loop")], { resources, shutdownTimeoutMs: 9_000 });
    const run = group.run();
    await bench.clock.settle();
    assertEquals(await bench.clock.until(group.shutdown()), false);
    const report = await run;
    assertEquals(events.slice(2), ["server is told that the time is up", "database stops"]);
    assertEquals([report.outcome, report.unfinished], ["timed_out", [`resource "server"`]]);
    assertEquals(report.stopMs, 7_200, "with a reserve left for each of the two after it");
  });

  it("a resource that fails to stop is a problem in the report, and the others still stop", async () => {
    const bench = new Bench();
    const events: string[] = [];
    const stop = () => Promise.reject(new Error("already closed"));
    const resources = [noting(events, "database"), noting(events, "server", { stop })];
    const report = await bench.clock.until(
      bench.group([bench.busy("loop", 5)], { resources }).run({ maxIterations: 1 }),
    );
    assertEquals(report.problems.map(({ what }) => what), [`resource "server" failed to stop`]);
    assertEquals([events.at(-1), report.exitCode], ["database stops", 0]);
  });
});
