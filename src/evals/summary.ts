import type { ResultError } from "../agents/agent_request.ts";
import type { TokenUsage } from "../agents/budget.ts";
import type { EvalResult } from "./eval_request.ts";

/** How long the agent took, in milliseconds. */
export interface Latencies {
  /** The arithmetic mean. */
  readonly meanMs: number;
  /** Half of them took no longer. */
  readonly p50Ms: number;
  /** All but the slowest twentieth took no longer. */
  readonly p95Ms: number;
}

/** A sample that did not pass. */
export interface Failure {
  /** The sample, by its id in the dataset. */
  readonly sampleId: string;
  /** Its score, from 0 to 1. */
  readonly value: number;
  /** What the evaluator said to it. */
  readonly reason?: string;
  /** What kept it from being scored. */
  readonly error?: ResultError;
}

/** What came of one experiment. */
export interface ExperimentSummary {
  /** That of the experiment. */
  readonly name: string;
  /** How many samples there are. */
  readonly samples: number;
  /** How many of them have a result. The figures are about these. */
  readonly finished: number;
  /** How many of those passed. */
  readonly passed: number;
  /** From 0 to 1; 0 where nothing is finished. */
  readonly passRate: number;
  /** The mean of the values; 0 where nothing is finished. */
  readonly meanScore: number;
  /** How many failed with an error. */
  readonly errors: number;
  /** What they have cost together. */
  readonly usage: TokenUsage;
  /** In the order of the dataset. */
  readonly failures: readonly Failure[];
  /** Left out of a report without timings, and where nothing is finished. */
  readonly latency?: Latencies;
}

/** An experiment beside the baseline, by the samples that both have finished. */
export interface Comparison {
  /** The name of the one that is compared. */
  readonly experiment: string;
  /** The name of the one that it is compared with. */
  readonly baseline: string;
  /** How many samples that are. */
  readonly compared: number;
  /** The experiment's minus the baseline's. */
  readonly passRateDifference: number;
  /** The experiment's minus the baseline's. */
  readonly meanScoreDifference: number;
  /** The samples with a higher value, or that pass now; in the order of the dataset. */
  readonly better: readonly string[];
  /** The samples with a lower value, or that passed before; in the order of the dataset. */
  readonly worse: readonly string[];
}

/** The results of one experiment by sample. */
export type ResultsBySample = ReadonlyMap<string, EvalResult>;

/** Sums up an experiment. */
export function summarise(
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

/** Compares an experiment with the baseline. */
export function compare(
  [experiment, ours]: readonly [string, ResultsBySample],
  [baseline, theirs]: readonly [string, ResultsBySample],
  sampleIds: readonly string[],
): Comparison {
  const pairs = sampleIds.flatMap((id) => {
    const [ourScore, theirScore] = [ours.get(id)?.score, theirs.get(id)?.score];
    if (ourScore === undefined || theirScore === undefined) return [];
    const passes = Number(ourScore.passed) - Number(theirScore.passed);
    const value = ourScore.value - theirScore.value;
    // Whether it passes weighs more than by how much.
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
