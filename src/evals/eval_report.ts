import { show } from "../_checks.ts";
import type { EvalResult } from "./eval_request.ts";
import {
  compare,
  type Comparison,
  type ExperimentSummary,
  type Failure,
  type ResultsBySample,
  summarize,
} from "./summary.ts";

/** The input of an {@linkcode EvalReport}. */
export interface EvalReportInit {
  /** The id of the evaluation. */
  readonly evaluationId: string;
  /** The results, in any order. */
  readonly results: Iterable<EvalResult>;
  /** The samples, in the order of the report. @default {the samples that have results, sorted by id} */
  readonly samples?: Iterable<{ readonly id: string }>;
  /** The experiments, in the order of the report. @default {those that have results, sorted by name} */
  readonly experiments?: Iterable<{ readonly name: string }>;
  /** The name of the experiment that the others are compared with. @default {the first one} */
  readonly baseline?: string;
  /** Whether the report contains latencies. @default {true} */
  readonly timings?: boolean;
}

/**
 * Reports on an evaluation. The order of results does not matter: two evaluations with the same scores have
 * the same report, except for latencies.
 *
 * @example
 * ```ts
 * import { EvalReport, type EvalResult } from "@lastcall/lastcall/evals";
 *
 * const result: EvalResult = {
 *   evaluationId: "capitals",
 *   sampleId: "fr",
 *   experiment: "default",
 *   score: { value: 1, passed: true },
 *   latencyMs: 12,
 *   usage: { inputTokens: 5, outputTokens: 1 },
 *   completedAt: 0,
 * };
 * const report = new EvalReport({ evaluationId: "capitals", results: [result] });
 * console.log(String(report));
 * console.assert(report.experiments[0]?.passRate === 1);
 * ```
 */
export class EvalReport {
  /** The id of the evaluation. */
  readonly evaluationId: string;
  /** The summaries of the experiments, in the given order. */
  readonly experiments: readonly ExperimentSummary[];
  /** The comparison of each other experiment with the baseline. */
  readonly comparisons: readonly Comparison[];
  readonly #init: EvalReportInit;

  /**
   * Computes the report. Later changes of the input do not change it.
   *
   * @throws {TypeError} when no experiment has the name of the baseline.
   */
  constructor(init: EvalReportInit) {
    const { evaluationId, timings = true } = init;
    const results = [...init.results];
    const found = (key: "sampleId" | "experiment") =>
      [...new Set(results.map((result) => result[key]))].sort();
    const ids = init.samples ? Array.from(init.samples, ({ id }) => id) : found("sampleId");
    const names = init.experiments
      ? Array.from(init.experiments, ({ name }) => name)
      : found("experiment");
    const byName = names.map((name) => [name, resultsOf(name, results)] as const);
    const base = baselineOf(byName, init.baseline);

    this.#init = { ...init, results, samples: ids.map((id) => ({ id })) };
    this.evaluationId = evaluationId;
    this.experiments = byName.map(([name, all]) => summarize(name, ids, all, timings));
    this.comparisons = byName.flatMap((it) =>
      base === undefined || it === base ? [] : [compare(it, base, ids)]
    );
  }

  /** True when every sample has a result in every experiment. */
  get complete(): boolean {
    return this.experiments.every(({ finished, samples }) => finished === samples);
  }

  /** Returns the report without latencies. It is equal for two evaluations with the same scores. */
  withoutTimings(): EvalReport {
    return new EvalReport({ ...this.#init, timings: false });
  }

  /** Returns the report as plain data. */
  toJSON(): Record<string, unknown> {
    const { evaluationId, complete, experiments, comparisons } = this;
    return { evaluationId, complete, experiments, comparisons };
  }

  /** Returns the report as text for a terminal. */
  toText(): string {
    return asText(this);
  }

  /** Returns the report as Markdown, for example for a pull request. */
  toMarkdown(): string {
    return asMarkdown(this);
  }

  /** Returns the same as `toText`. */
  toString(): string {
    return this.toText();
  }
}

function resultsOf(name: string, results: readonly EvalResult[]): ResultsBySample {
  // Reversed, so that the first of several results of a sample wins.
  const own = results.filter(({ experiment }) => experiment === name).reverse();
  return new Map(own.map((result) => [result.sampleId, result]));
}

function baselineOf<T>(
  experiments: readonly (readonly [name: string, T])[],
  name: string | undefined,
): readonly [name: string, T] | undefined {
  if (name === undefined) return experiments[0];
  const found = experiments.find(([other]) => other === name);
  if (found !== undefined) return found;
  const names = experiments.map(([other]) => show(other)).join(", ");
  throw new TypeError(`Invalid baseline: expected one of ${names}, got ${show(name)}`);
}

/** Longer lists are cut; the JSON has all entries. */
const MAX_LIST_ENTRIES = 10;

/** Formats the report for a terminal. */
function asText(report: EvalReport): string {
  return [
    headline(report),
    table(rowsOf(report)),
    ...report.comparisons.map((comparison) =>
      [`${against(comparison)}:`, ...changes(comparison).map((line) => `  ${line}`)].join("\n")
    ),
    ...report.experiments.filter(({ failures }) => failures.length > 0).map((experiment) =>
      [`Failures of ${experiment.name}:`, ...failureLines(experiment).map((it) => `  ${it}`)]
        .join("\n")
    ),
  ].join("\n\n");
}

/** Formats the report as Markdown. */
function asMarkdown(report: EvalReport): string {
  const escaped = rowsOf(report).map((row) => row.map(escape));
  const [head = [], ...body] = escaped;
  const rows = [head, head.map((_, i) => i === 0 ? "---" : "--:"), ...body];
  return [
    `## ${escape(headline(report))}`,
    rows.map((row) => `| ${row.join(" | ")} |`).join("\n"),
    ...report.comparisons.map((comparison) =>
      [`### ${escape(against(comparison))}`, list(changes(comparison))].join("\n\n")
    ),
    ...report.experiments.filter(({ failures }) => failures.length > 0).map((experiment) =>
      [`### Failures of ${escape(experiment.name)}`, list(failureLines(experiment))].join("\n\n")
    ),
  ].join("\n\n") + "\n";
}

function headline({ evaluationId, experiments }: EvalReport): string {
  const missing = experiments.reduce((sum, it) => sum + it.samples - it.finished, 0);
  const parts = [
    count(experiments[0]?.samples ?? 0, "sample"),
    count(experiments.length, "experiment"),
    ...(missing > 0 ? [`${missing} not finished`] : []),
  ];
  return `Evaluation ${evaluationId}: ${parts.join(", ")}`;
}

function rowsOf({ experiments }: EvalReport): readonly (readonly string[])[] {
  const timed = experiments.some(({ latency }) => latency !== undefined);
  const head = ["experiment", "finished", "passed", "pass rate", "mean", "errors", "tokens"];
  const rows = experiments.map((it) => {
    const { usage: { inputTokens, outputTokens }, latency } = it;
    const scored = it.finished > 0;
    return [
      it.name,
      `${it.finished}/${it.samples}`,
      String(it.passed),
      scored ? `${(it.passRate * 100).toFixed(1)} %` : "–",
      scored ? it.meanScore.toFixed(3) : "–",
      String(it.errors),
      `${inputTokens} + ${outputTokens}`,
      ...(timed ? [latency?.meanMs, latency?.p50Ms, latency?.p95Ms].map(milliseconds) : []),
    ];
  });
  return [[...head, ...(timed ? ["mean time", "p50", "p95"] : [])], ...rows];
}

function against({ experiment, baseline }: Comparison): string {
  return `${experiment} against ${baseline}`;
}

function changes(comparison: Comparison): readonly string[] {
  const { compared, passRateDifference, meanScoreDifference, better, worse } = comparison;
  return [
    `pass rate ${signed(passRateDifference * 100, 1)} points, ` +
    `mean ${signed(meanScoreDifference, 3)}, by ${count(compared, "sample")}`,
    `better: ${some(better)}`,
    `worse: ${some(worse)}`,
  ];
}

function failureLines({ failures }: ExperimentSummary): readonly string[] {
  const lines = failures.slice(0, MAX_LIST_ENTRIES).map(failureLine);
  const hidden = failures.length - lines.length;
  return hidden > 0 ? [...lines, `and ${hidden} more`] : lines;
}

function failureLine({ sampleId, value, reason }: Failure): string {
  const why = reason ?? `scored ${value.toFixed(3)}`;
  return `${sampleId}: ${why.replace(/\s+/g, " ")}`;
}

/** Aligns the first column to the left and the numbers to the right. */
function table(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, i) => Math.max(...rows.map((row) => row[i]!.length)));
  return rows.map((row) =>
    row.map((cell, i) => i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!)).join("  ")
  ).join("\n");
}

function list(lines: readonly string[]): string {
  return lines.map((line) => `- ${escape(line)}`).join("\n");
}

function some(ids: readonly string[]): string {
  if (ids.length === 0) return "none";
  const shown = ids.slice(0, MAX_LIST_ENTRIES).join(", ");
  return ids.length <= MAX_LIST_ENTRIES
    ? shown
    : `${shown} and ${ids.length - MAX_LIST_ENTRIES} more`;
}

function milliseconds(ms: number | undefined): string {
  return ms === undefined ? "–" : `${ms < 10 ? ms.toFixed(1) : ms.toFixed(0)} ms`;
}

function signed(value: number, digits: number): string {
  const text = Math.abs(value).toFixed(digits);
  return Number(text) === 0 ? text : `${value > 0 ? "+" : "−"}${text}`;
}

function count(number: number, unit: string): string {
  return `${number} ${unit}${number === 1 ? "" : "s"}`;
}

function escape(text: string): string {
  return text.replace(/[\\|<>*_`[\]]/g, "\\$&");
}
