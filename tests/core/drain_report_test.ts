import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import {
  DrainReport,
  type DrainReportInit,
  type LoopReport,
} from "../../src/lifecycle/drain_report.ts";
import { NO_COUNTS } from "../../src/lifecycle/runnable.ts";
import type { Runnable } from "../../src/lifecycle/runnable.ts";
import { Bench } from "./_group.ts";

const loop = (more: Partial<LoopReport> = {}): LoopReport => ({
  name: "orders",
  state: "ended",
  stopMs: 0,
  restarts: 0,
  inFlight: [],
  counts: NO_COUNTS,
  ...more,
});

const report = (more: Partial<DrainReportInit> = {}) =>
  new DrainReport({
    reason: { kind: "signal", text: "SIGTERM", signal: "SIGTERM" },
    runMs: 60_000,
    stopMs: 1_234,
    timeoutMs: 30_000,
    phases: [],
    loops: [loop()],
    unfinished: [],
    problems: [],
    ...more,
  });

describe("DrainReport", () => {
  it("a report has the exit code of the worst outcome", () => {
    const failed = loop({ state: "failed", error: new Error("x") });
    const hung = loop({ state: "hung" });
    const codes = [
      report(),
      report({ loops: [hung] }),
      report({ unfinished: [`resource "db"`] }),
      report({ loops: [hung, failed] }),
      report({ loops: [hung, failed], forcedBy: "SIGINT" }),
    ].map(({ outcome, exitCode }) => `${outcome} ${exitCode}`);
    assertEquals(codes, ["drained 0", "timed_out 124", "timed_out 124", "failed 1", "forced 130"]);
  });

  it("a report adds up the counts of all loops and says whether they balance", async () => {
    const counts = { ...NO_COUNTS, received: 10, acknowledged: 7, released: 2, nacked: 1 };
    const bench = new Bench();
    const counting = (name: string): Runnable => Object.assign(bench.idle(name), { counts });
    const group = bench.group([counting("a"), counting("b")]);
    const run = group.run();
    await bench.clock.settle();
    await bench.clock.until(group.shutdown());
    const { counts: sum, balanced } = await run;
    assertEquals([sum.received, sum.acknowledged, sum.released, sum.nacked], [20, 14, 4, 2]);
    assertEquals(balanced, true);
    assertEquals(
      report({ loops: [loop({ counts: { ...counts, received: 11 } })] }).balanced,
      false,
    );
  });

  it("a report as text has one line for each loop and each problem", () => {
    const text = String(report({
      loops: [
        loop({
          stopMs: 12,
          counts: { ...NO_COUNTS, received: 3, acknowledged: 2, deadLettered: 1 },
        }),
        loop({
          name: "mails",
          state: "hung",
          inFlight: [{ id: "message 42", ageMs: 31_000 }],
          counts: { ...NO_COUNTS, received: 1 },
        }),
        loop({ name: "cron", state: "failed", restarts: 5, error: new TypeError("bad") }),
      ],
      unfinished: [`resource "db"`],
      problems: [{ what: "cancel() failed", error: new Error("no") }],
    }));
    assertEquals(text.split("\n"), [
      "failed in 1.2 s of 30.0 s (SIGTERM), exit code 1",
      "  orders: ended in 12 ms; received 3: 2 acknowledged, 1 dead lettered",
      "  mails: hung on message 42 (31.0 s); received 1",
      "  cron: failed after 5 restarts with TypeError: bad",
      `  not ended: resource "db"`,
      "  problem: cancel() failed: Error: no",
    ]);
  });

  it("a report as JSON is plain data, including errors", () => {
    const json = JSON.parse(JSON.stringify(report({
      loops: [loop({ state: "failed", error: new Error("broken") })],
      problems: [{ what: "this", error: "that" }],
    })));
    assertEquals([json.outcome, json.exitCode, json.counts.received], ["failed", 1, 0]);
    assertEquals([json.loops[0].error, json.problems[0].error], ["Error: broken", "that"]);
    assertEquals(json.reason.signal, "SIGTERM");
  });
});
