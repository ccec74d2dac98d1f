import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { assert, assertEquals, assertGreater, assertStringIncludes } from "@std/assert";
import { COMPARISONS } from "../../bench/comparisons.ts";
import { documents, explainedSections } from "../../bench/document.ts";
import { goalRows } from "../../bench/goal_rows.ts";
import { GOALS } from "../../bench/goals.ts";
import { type Figure, readResults, type Results } from "../../bench/results.ts";
import { root } from "../../tools/runtimes.ts";

const read = (path: string) => readFileSync(join(root, path), "utf8");
const results = await readResults();
const missed = read("bench/missed.md");
const figures = Object.values(results.parts).flatMap((part) => part.figures ?? []);
const comparisons = Object.values(COMPARISONS).flatMap(({ groups }) =>
  groups.flatMap((group) => group.comparisons)
);

test("docs/benchmarks.md and its charts are what the figures make of them", () => {
  const made = documents(results, missed);
  assertGreater(made.size, 3);
  for (const [path, content] of made) assertEquals(read(path), content, path);
  const charts = globSync("docs/images/bench_*.svg", { cwd: root })
    .map((path) => path.replaceAll("\\", "/"));
  assertEquals(charts.sort(), [...made.keys()].filter((path) => path.endsWith(".svg")).sort());
});

test("each goal is measured by a comparison, and its contenders take part in it", () => {
  for (const { id, comparison, contender = "lastcall", to = [] } of GOALS) {
    const found = comparisons.find((it) => it.id === comparison);
    assert(found !== undefined, `${id} is measured by no comparison`);
    for (const name of [contender, ...to]) {
      assert(found.contenders.includes(name), `${id}: ${name}`);
    }
  }
  assertEquals(new Set(GOALS.map(({ id }) => id)).size, GOALS.length);
});

test("each goal has a row in the committed figures", () => {
  const ids = new Set(goalRows(figures).map(({ goal }) => goal.id));
  assertEquals(GOALS.map(({ id }) => id).filter((id) => !ids.has(id)), []);
});

test("each explanation is of a goal or of a part", () => {
  const goals = new Set(GOALS.map(({ id }) => id));
  const ids = explainedSections(missed).flatMap((section) => section.ids);
  assertGreater(ids.length, 10);
  const isKnown = (id: string) => goals.has(id) || existsSync(join(root, "bench", `${id}.ts`));
  assertEquals(ids.filter((id) => !isKnown(id)), []);
});

test("figures name no folder or host of the machine", () => {
  const text = read("bench/results.json");
  assert(!/\/(home|root|work|tmp|Users)\b|localhost|127\.0\.0\.1|https?:/.test(text));
});

/** The figures of one comparison: lastcall and two peers on Node. */
function sample(contenders: Figure["contenders"]): Results {
  const figure: Figure = {
    comparison: "redis_10",
    runtime: "node",
    title: "concurrency 10",
    count: 1_000,
    contenders,
  };
  return {
    machine: { cores: 2, memoryGb: 8, system: "linux x64" },
    parts: {
      redis: { date: "2026-01-02", seconds: 1, quick: false, versions: {}, figures: [figure] },
    },
  };
}

const rate = (goal: string, results: Results) =>
  goalRows(results.parts["redis"]!.figures!).find((row) => row.goal.id === goal)?.outcome;

test("a ratio is that of the medians to the best peer, with the spread of single rounds", () => {
  const outcome = rate(
    "redis_10",
    sample({
      lastcall: { rounds: { ms: [10, 20, 10], cpuMs: [5, 5, 5] } },
      BullMQ: { rounds: { ms: [80, 90, 100], cpuMs: [10, 10, 10] } },
      "bee-queue": { rounds: { ms: [40, 40, 60], cpuMs: [20, 20, 20] } },
    }),
  );
  const expected = { value: 4, low: 2, high: 6, met: true, unit: "×", to: "bee-queue" } as const;
  assertEquals(outcome, expected);
});

test("a peer that failed is named in the page, and does not count", () => {
  const results = sample({
    lastcall: { rounds: { ms: [10], cpuMs: [5] } },
    BullMQ: { failed: "no answer within 30 s" },
    "bee-queue": { rounds: { ms: [20], cpuMs: [20] } },
  });
  const outcome = rate("redis_10", results);
  assertEquals(outcome, { value: 2, low: 2, high: 2, met: false, unit: "×", to: "bee-queue" });
  const page = documents(results, missed).get("docs/benchmarks.md") ?? "";
  assertStringIncludes(page, "failed: no answer within 30 s");
  assertStringIncludes(page, "missed: 2.00 × (2.00–2.00)");
});

test("a goal without any peer that could be measured says so", () => {
  const results = sample({
    lastcall: { rounds: { ms: [10], cpuMs: [5] } },
    BullMQ: { failed: "it ended" },
    "bee-queue": { failed: "it ended" },
  });
  assertEquals(rate("redis_10", results), { failed: "BullMQ, bee-queue could not be measured" });
  const page = documents(results, missed).get("docs/benchmarks.md") ?? "";
  assertStringIncludes(page, "not measured: BullMQ, bee-queue could not be measured");
});
