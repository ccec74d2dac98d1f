import { show } from "../_checks.ts";
import type { EvalResult } from "./eval_request.ts";
import { asMarkdown, asText } from "./_report_text.ts";
import {
  compare,
  type Comparison,
  type ExperimentSummary,
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
