import { show } from "../_checks.ts";
import type { ResultError } from "../agents/agent_types.ts";
import type { TokenUsage } from "../agents/budget.ts";
import type { SchemaIssue, StandardSchema } from "../loops/schema.ts";
import { type Experiment, isWellFormed, type Sample, sampleProblem } from "./dataset.ts";
import { type Score, toScore } from "./evaluators.ts";

/** The body of a message that asks an {@linkcode EvalLoop} to evaluate one sample in one experiment. */
export interface EvalRequest<I, E = unknown> {
  /** The id of the evaluation. */
  readonly evaluationId: string;
  /** The sample to evaluate. */
  readonly sample: Sample<I, E>;
  /** The experiment to evaluate it in. */
  readonly experiment: Experiment;
}

/** The result of one sample in one experiment. */
export interface EvalResult<O = unknown> {
  /** The id of the evaluation. */
  readonly evaluationId: string;
  /** The id of the sample. */
  readonly sampleId: string;
  /** The name of the experiment. */
  readonly experiment: string;
  /** The score of the output; a failed score of 0 when there is an error. */
  readonly score: Score;
  /** The output of the agent; missing when the agent failed. */
  readonly output?: O;
  /** The failure of the agent or of the evaluator. */
  readonly error?: ResultError;
  /** How long the agent took. */
  readonly latencyMs: number;
  /** The tokens that the agent used. */
  readonly usage: TokenUsage;
  /** The time of the result in milliseconds since the Unix epoch. */
  readonly completedAt: number;
}

/**
 * Returns the id of one sample in one experiment of one evaluation. It is the id of the request message, and
 * results with the same id are duplicates.
 */
export function trialId(evaluationId: string, experiment: string, sampleId: string): string {
  return [evaluationId, experiment, sampleId].map(encodeURIComponent).join("/");
}

/** Returns the {@linkcode trialId} of a result. */
export function trialIdOf({ evaluationId, experiment, sampleId }: EvalResult): string {
  return trialId(evaluationId, experiment, sampleId);
}

/** Returns a schema that checks requests. */
export function requestSchema<I, E>(): StandardSchema<EvalRequest<I, E>> {
  return {
    "~standard": {
      version: 1,
      vendor: "lastcall",
      validate(value) {
        const issues = requestIssues(value);
        return issues.length > 0 ? { issues } : { value: value as EvalRequest<I, E> };
      },
    },
  };
}

function requestIssues(value: unknown): readonly SchemaIssue[] {
  const { evaluationId, sample, experiment } = Object(value) as Partial<EvalRequest<unknown>>;
  const problem = sampleProblem(sample);
  return [
    ...(isText(evaluationId) ? [] : [issue("evaluationId", NON_EMPTY)]),
    ...(problem === undefined ? [] : [issue("sample", problem)]),
    ...(isText(experiment?.name) ? [] : [issue("experiment", "expected an object with a name")]),
  ];
}

/** Returns why a value is not a valid {@linkcode EvalResult}; an empty array when it is one. */
export function resultIssues(value: unknown): readonly SchemaIssue[] {
  const { evaluationId, sampleId, experiment, score, latencyMs, usage, error } = Object(
    value,
  ) as Partial<EvalResult>;
  const isAmount = (it: unknown) => typeof it === "number" && it >= 0;
  const isFailure = error === undefined || typeof error?.message === "string";
  const isUsage = isAmount(usage?.inputTokens) && isAmount(usage?.outputTokens);
  return [
    ...(isText(evaluationId) ? [] : [issue("evaluationId", NON_EMPTY)]),
    ...(isText(sampleId) ? [] : [issue("sampleId", NON_EMPTY)]),
    ...(isText(experiment) ? [] : [issue("experiment", NON_EMPTY)]),
    ...(isScore(score) ? [] : [issue("score", "expected a score")]),
    ...(isAmount(latencyMs) ? [] : [issue("latencyMs", "expected milliseconds")]),
    ...(isUsage ? [] : [issue("usage", "expected numbers of tokens")]),
    ...(isFailure ? [] : [issue("error", "expected an object with a message")]),
  ];
}

const NON_EMPTY = "expected a non-empty string without unpaired surrogates";

/** Returns true for a non-empty string of which an id can be made. */
export function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "" && isWellFormed(value);
}

/**
 * Returns the id unchanged.
 *
 * @throws {TypeError} when it is not a non-empty string.
 */
export function checkEvaluationId(id: unknown): string {
  if (isText(id)) return id;
  throw new TypeError(`Invalid evaluation id: ${NON_EMPTY}, got ${show(id)}`);
}

function isScore(value: unknown): boolean {
  try {
    return typeof value === "object" && toScore(value as Score) === value;
  } catch {
    return false;
  }
}

function issue(path: string, message: string): SchemaIssue {
  return { path: [path], message };
}
