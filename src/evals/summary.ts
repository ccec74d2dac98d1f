import type { ResultError } from "../agents/agent_types.ts";
import type { TokenUsage } from "../agents/budget.ts";
import type { EvalResult } from "./eval_request.ts";

/** Statistics of the time that the agent took per sample. */
export interface Latencies {
  /** The arithmetic mean. */
  readonly meanMs: number;
  /** The median. */
  readonly p50Ms: number;
  /** The 95th percentile. */
  readonly p95Ms: number;
}

/** A sample that did not pass. */
export interface Failure {
  /** The id of the sample. */
  readonly sampleId: string;
  /** The value of its score, from 0 to 1. */
  readonly value: number;
  /** The evaluator's reason. */
  readonly reason?: string;
  /** The failure of the agent or of the evaluator. */
  readonly error?: ResultError;
}

/** The summary of one experiment. Its counts and means cover the finished samples. */
export interface ExperimentSummary {
  /** The name of the experiment. */
  readonly name: string;
  /** The number of samples. */
  readonly samples: number;
  /** The number of samples that have a result. */
  readonly finished: number;
  /** The number of samples that passed. */
  readonly passed: number;
  /** The share that passed, from 0 to 1; 0 when no sample is finished. */
  readonly passRate: number;
  /** The mean of the score values; 0 when no sample is finished. */
  readonly meanScore: number;
  /** The number of samples with an error. */
  readonly errors: number;
  /** The tokens of all samples. */
  readonly usage: TokenUsage;
  /** The samples that did not pass, in the order of the dataset. */
  readonly failures: readonly Failure[];
  /** Missing in a report without timings, and when no sample is finished. */
  readonly latency?: Latencies;
}

/** Compares an experiment with the baseline, on the samples that both have finished. */
export interface Comparison {
  /** The name of the experiment. */
  readonly experiment: string;
  /** The name of the baseline. */
  readonly baseline: string;
  /** The number of compared samples. */
  readonly compared: number;
  /** The pass rate of the experiment minus that of the baseline. */
  readonly passRateDifference: number;
  /** The mean score of the experiment minus that of the baseline. */
  readonly meanScoreDifference: number;
  /** Samples that pass only in the experiment, or that score higher; in the order of the dataset. */
  readonly better: readonly string[];
  /** Samples that pass only in the baseline, or that score lower; in the order of the dataset. */
  readonly worse: readonly string[];
}

/** The results of one experiment by sample id. */
export type ResultsBySample = ReadonlyMap<string, EvalResult>;

/** Returns the summary of an experiment. */
export function summarize(
  name: string,
  sampleIds: readonly string[],
  bySample: ResultsBySample,
  timings: boolean,
): ExperimentSummary {
  const results = sampleIds.flatMap((id) => bySample.get(id) ?? []);
  const passed = results.filter(({ score }) => score.passed).length;
  const latencies = results.map(({ latencyMs }) => latencyMs).sort((a, b) => a - b);
  return {
    name,
    samples: sampleIds.length,
    finished: results.length,
    passed,
    passRate: mean(results.map(({ score }) => score.passed ? 1 : 0)),
    meanScore: mean(results.map(({ score }) => score.value)),
    errors: results.filter(({ error }) => error !== undefined).length,
    usage: {
      inputTokens: sum(results.map(({ usage }) => usage.inputTokens)),
      outputTokens: sum(results.map(({ usage }) => usage.outputTokens)),
    },
    failures: results.filter(({ score }) => !score.passed).map(failureOf),
    ...(timings && latencies.length > 0 ? { latency: latenciesOf(latencies) } : {}),
  };
}

/** Returns the comparison of an experiment with the baseline. */
export function compare(
  [experiment, results]: readonly [string, ResultsBySample],
  [baseline, baseResults]: readonly [string, ResultsBySample],
  sampleIds: readonly string[],
): Comparison {
  const pairs = sampleIds.flatMap((id) => {
    const [score, baseScore] = [results.get(id)?.score, baseResults.get(id)?.score];
    if (score === undefined || baseScore === undefined) return [];
    const passes = Number(score.passed) - Number(baseScore.passed);
    const value = score.value - baseScore.value;
    // Passing or not outweighs the difference in value.
    return [{ id, passes, value, change: passes || value }];
  });
  return {
    experiment,
    baseline,
    compared: pairs.length,
    passRateDifference: mean(pairs.map(({ passes }) => passes)),
    meanScoreDifference: mean(pairs.map(({ value }) => value)),
    better: pairs.filter(({ change }) => change > 0).map(({ id }) => id),
    worse: pairs.filter(({ change }) => change < 0).map(({ id }) => id),
  };
}

function failureOf({ sampleId, score, error }: EvalResult): Failure {
  const { value, reason } = score;
  return {
    sampleId,
    value,
    ...(reason === undefined ? {} : { reason }),
    ...(error === undefined ? {} : { error }),
  };
}

function latenciesOf(sorted: readonly number[]): Latencies {
  const rank = (share: number) => sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)]!;
  return { meanMs: mean(sorted), p50Ms: rank(0.5), p95Ms: rank(0.95) };
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function mean(values: readonly number[]): number {
  return values.length === 0 ? 0 : sum(values) / values.length;
}
