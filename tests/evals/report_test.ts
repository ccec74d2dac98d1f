import { describe, it } from "node:test";
import { assertEquals, assertNotEquals, assertThrows } from "@std/assert";
import { EvalReport, type EvalResult } from "../../src/evals/mod.ts";

function result(experiment: string, sampleId: string, more: Partial<EvalResult> = {}): EvalResult {
  return {
    evaluationId: "capitals",
    experiment,
    sampleId,
    score: { value: 1, passed: true },
    latencyMs: 100,
    usage: { inputTokens: 10, outputTokens: 2 },
    completedAt: 0,
    ...more,
  };
}

const lyon = { value: 0, passed: false, reason: 'expected "Paris",\n got "Lyon"' };
const results: readonly EvalResult[] = [
  result("terse", "fr", { latencyMs: 20 }),
  result("terse", "jp", { latencyMs: 1_000, score: { value: 0.25, passed: false } }),
  result("terse", "pe", { score: { value: 0.75, passed: true } }),
  result("chatty", "fr", { score: lyon, latencyMs: 4.26 }),
  result("chatty", "jp"),
  result("chatty", "pe", {
    score: { value: 0, passed: false, reason: "Error: busy | *later*" },
    error: { name: "Error", message: "busy | *later*" },
    usage: { inputTokens: 0, outputTokens: 0 },
  }),
];
const init = {
  evaluationId: "capitals",
  samples: [{ id: "pe" }, { id: "fr" }, { id: "jp" }],
  experiments: [{ name: "chatty" }, { name: "terse" }],
  results,
};
const report = new EvalReport(init);

describe("EvalReport", () => {
  it("EvalReport has rates, means, latencies, tokens, and failures in the order of the dataset", () => {
    const [chatty, terse] = report.experiments;
    assertEquals(chatty, {
      name: "chatty",
      samples: 3,
      finished: 3,
      passed: 1,
      passRate: 1 / 3,
      meanScore: 1 / 3,
      errors: 1,
      usage: { inputTokens: 20, outputTokens: 4 },
      failures: [
        {
          sampleId: "pe",
          value: 0,
          reason: "Error: busy | *later*",
          error: { name: "Error", message: "busy | *later*" },
        },
        { sampleId: "fr", value: 0, reason: 'expected "Paris",\n got "Lyon"' },
      ],
      latency: { meanMs: 204.26 / 3, p50Ms: 100, p95Ms: 100 },
    });
    assertEquals([terse?.passRate, terse?.meanScore], [2 / 3, 2 / 3]);
    assertEquals(terse?.latency, { meanMs: 1_120 / 3, p50Ms: 100, p95Ms: 1_000 });
  });

  it("EvalReport uses nearest-rank percentiles for latencies", () => {
    const latencyOf = (latencies: readonly number[]) => {
      const results = latencies.map((latencyMs, i) => result("x", `s${i}`, { latencyMs }));
      const { p50Ms, p95Ms } = new EvalReport({
        ...init,
        results,
        samples: results.map(idOf),
        experiments: [{ name: "x" }],
      })
        .experiments[0]!.latency!;
      return [p50Ms, p95Ms];
    };
    const idOf = ({ sampleId: id }: EvalResult) => ({ id });
    assertEquals(latencyOf([7]), [7, 7]);
    assertEquals(latencyOf([1, 2]), [1, 2]);
    const hundred = Array.from({ length: 100 }, (_, i) => 100 - i);
    assertEquals(latencyOf(hundred), [50, 95]);
    assertEquals(latencyOf([...hundred, 101]), [51, 96]);
  });

  it("EvalReport lists better and worse samples compared with the baseline", () => {
    assertEquals(report.comparisons, [{
      experiment: "terse",
      baseline: "chatty",
      compared: 3,
      passRateDifference: 1 / 3,
      meanScoreDifference: 1 / 3,
      better: ["pe", "fr"],
      worse: ["jp"],
    }]);
    const [other] = new EvalReport({ ...init, baseline: "terse" }).comparisons;
    assertEquals([other?.baseline, other?.better, other?.worse], ["terse", ["jp"], ["pe", "fr"]]);
    assertThrows(() => new EvalReport({ ...init, baseline: "x" }), TypeError, '"chatty", "terse"');
  });

  it("EvalReport compares only samples that both have, by passing first and by value second", () => {
    const score = (value: number, passed: boolean) => ({ score: { value, passed } });
    const [comparison] = new EvalReport({
      evaluationId: "e",
      results: [
        result("a", "1", score(0.5, true)),
        result("a", "2", score(0.5, true)),
        result("a", "3", score(0.5, false)),
        result("a", "4"),
        result("b", "1", score(0.6, false)),
        result("b", "2", score(0.5, true)),
        result("b", "3", score(0.6, false)),
        result("b", "5"),
      ],
    }).comparisons;
    assertEquals([comparison?.compared, comparison?.better, comparison?.worse], [3, ["3"], ["1"]]);
  });

  it("EvalReport.toText returns a table", () => {
    assertEquals(
      `\n${report}\n`,
      `
Evaluation capitals: 3 samples, 2 experiments

experiment  finished  passed  pass rate   mean  errors  tokens  mean time     p50      p95
chatty           3/3       1     33.3 %  0.333       1  20 + 4      68 ms  100 ms   100 ms
terse            3/3       2     66.7 %  0.667       0  30 + 6     373 ms  100 ms  1000 ms

terse against chatty:
  pass rate +33.3 points, mean +0.333, by 3 samples
  better: pe, fr
  worse: jp

Failures of chatty:
  pe: Error: busy | *later*
  fr: expected "Paris", got "Lyon"

Failures of terse:
  jp: scored 0.250
`,
    );
  });

  it("EvalReport.toMarkdown escapes Markdown in reasons", () => {
    assertEquals(
      `\n${report.withoutTimings().toMarkdown()}`,
      `
## Evaluation capitals: 3 samples, 2 experiments

| experiment | finished | passed | pass rate | mean | errors | tokens |
| --- | --: | --: | --: | --: | --: | --: |
| chatty | 3/3 | 1 | 33.3 % | 0.333 | 1 | 20 + 4 |
| terse | 3/3 | 2 | 66.7 % | 0.667 | 0 | 30 + 6 |

### terse against chatty

- pass rate +33.3 points, mean +0.333, by 3 samples
- better: pe, fr
- worse: jp

### Failures of chatty

- pe: Error: busy \\| \\*later\\*
- fr: expected "Paris", got "Lyon"

### Failures of terse

- jp: scored 0.250
`,
    );
  });

  it("EvalReport.toJSON returns plain data", () => {
    const { complete, experiments, comparisons } = report;
    const plain = JSON.parse(JSON.stringify(report));
    assertEquals(plain, { evaluationId: "capitals", complete, experiments, comparisons });
  });

  it("EvalReport.withoutTimings is equal for equal scores in any order", () => {
    const later = [...results].reverse().map((it, i) => ({ ...it, latencyMs: i, completedAt: i }));
    const other = new EvalReport({ ...init, results: later });
    assertNotEquals(String(other), String(report));
    assertEquals(String(other.withoutTimings()), String(report.withoutTimings()));
    assertEquals(other.withoutTimings().toJSON(), report.withoutTimings().toJSON());
    const changed = [...results.slice(1), result("terse", "fr", { score: lyon })];
    const third = new EvalReport({ ...init, results: changed });
    assertNotEquals(String(third.withoutTimings()), String(report.withoutTimings()));
  });

  it("EvalReport counts only the first result of a sample", () => {
    const twice = new EvalReport({ ...init, results: [...results, result("chatty", "fr")] });
    assertEquals(String(twice), String(report));
  });

  it("EvalReport shows the number of unfinished samples", () => {
    const some = new EvalReport({ ...init, results: results.slice(0, 2) });
    assertEquals([report.complete, some.complete], [true, false]);
    assertEquals(
      String(some.withoutTimings()).split("\n\n").slice(0, 3).join("\n\n"),
      `Evaluation capitals: 3 samples, 2 experiments, 4 not finished

experiment  finished  passed  pass rate   mean  errors  tokens
chatty           0/3       0          –      –       0   0 + 0
terse            2/3       1     50.0 %  0.625       0  20 + 4

terse against chatty:
  pass rate 0.0 points, mean 0.000, by 0 samples
  better: none
  worse: none`,
    );
  });

  it("EvalReport lists at most ten failures as text and all of them as data", () => {
    const bad = Array.from({ length: 13 }, (_, i) => result("x", `s${i}`, { score: lyon }));
    const long = new EvalReport({ evaluationId: "e", results: bad });
    assertEquals(long.toText().split("\n").at(-1), "  and 3 more");
    assertEquals(long.experiments[0]?.failures.length, 13);
  });

  it("EvalReport works without results", () => {
    const nothing = new EvalReport({ evaluationId: "e", results: [] });
    assertEquals([nothing.complete, nothing.comparisons], [true, []]);
    assertEquals(nothing.toText().split("\n")[0], "Evaluation e: 0 samples, 0 experiments");
  });
});
