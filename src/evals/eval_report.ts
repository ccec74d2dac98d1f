import { show } from "../_checks.ts";
import type { EvalResult } from "./eval_request.ts";
import { asMarkdown, asText } from "./_report_text.ts";
import {
  compare,
  type Comparison,
  type ExperimentSummary,
  type ResultsBySample,
  summarise,
} from "./summary.ts";

/** What an {@linkcode EvalReport} is made from. */
export interface EvalReportInit {
  /** The evaluation that the results are of. */
  readonly evaluationId: string;
  /** In any order. */
  readonly results: Iterable<EvalResult>;
  /** The samples, in the order they are told in. @default {those that have results, by id} */
  readonly samples?: Iterable<{ readonly id: string }>;
  /** The experiments, in the order they are told in. @default {those that have results, by name} */
  readonly experiments?: Iterable<{ readonly name: string }>;
  /** The name of the experiment that the others are compared with. @default {the first one} */
  readonly baseline?: string;
  /** Whether it tells how long things took. @default {true} */
  readonly timings?: boolean;
}

/**
 * What came of an evaluation. The order of results does not matter: two evaluations with the same scores
 * have the same report, but for the time they took.
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
  /** The evaluation that it is about. */
  readonly evaluationId: string;
  /** What came of each, in the order they were given in. */
  readonly experiments: readonly ExperimentSummary[];
  /** Every other experiment beside the baseline. */
  readonly comparisons: readonly Comparison[];
  readonly #init: EvalReportInit;

  /** Counts and compares at once; results that come later make another report. */
  constructor(init: EvalReportInit) {
    const { evaluationId, timings = true } = init;
    const results = [...init.results];
    const found = (key: "sampleId" | "experiment") =>
      [...new Set(results.map((result) => result[key]))].sort();
    const sampleIds = Array.from(init.samples ?? [], ({ id }) => id);
    const ids = init.samples === undefined ? found("sampleId") : sampleIds;
    const experiments = Array.from(init.experiments ?? [], ({ name }) => name);
    const names = init.experiments === undefined ? found("experiment") : experiments;
    const byName = names.map((name) => [name, resultsOf(name, results)] as const);
    const base = baselineOf(byName, init.baseline);

    this.#init = { ...init, results, samples: ids.map((id) => ({ id })) };
    this.evaluationId = evaluationId;
    this.experiments = byName.map(([name, all]) => summarise(name, ids, all, timings));
    this.comparisons = byName.flatMap((it) =>
      base === undefined || it === base ? [] : [compare(it, base, ids)]
    );
  }

  /** True when every sample of every experiment has a result. */
  get complete(): boolean {
    return this.experiments.every(({ finished, samples }) => finished === samples);
  }

  /** The same without how long things took: what two runs with the same scores have in common. */
  withoutTimings(): EvalReport {
    return new EvalReport({ ...this.#init, timings: false });
  }

  /** Plain data. */
  toJSON(): Record<string, unknown> {
    const { evaluationId, complete, experiments, comparisons } = this;
    return { evaluationId, complete, experiments, comparisons };
  }

  /** Tables and lists for a terminal. */
  toText(): string {
    return asText(this);
  }

  /** The same for a web page or a pull request. */
  toMarkdown(): string {
    return asMarkdown(this);
  }

  /** The same as `toText`. */
  toString(): string {
    return this.toText();
  }
}

function resultsOf(name: string, results: readonly EvalResult[]): ResultsBySample {
  const own = results.filter(({ experiment }) => experiment === name).reverse();
  return new Map(own.map((result) => [result.sampleId, result])); // the first that came
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
