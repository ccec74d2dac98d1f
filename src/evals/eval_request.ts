import type { ResultError } from "../agents/agent_request.ts";
import type { TokenUsage } from "../agents/budget.ts";
import type { SchemaIssue, StandardSchema } from "../loops/schema.ts";
import { problemOf, type Sample } from "./dataset.ts";
import type { Experiment } from "./experiment.ts";
import { checkScore, type Score } from "./score.ts";

/** A sample as it lies in a mailbox. */
export interface EvalRequest<I, E = unknown> {
  /** The evaluation that it belongs to. */
  readonly evaluationId: string;
  /** What to try. */
  readonly sample: Sample<I, E>;
  /** What to try it with. */
  readonly experiment: Experiment;
}

/** What became of a sample. */
export interface EvalResult<O = unknown> {
  /** That of the request. */
  readonly evaluationId: string;
  /** The sample that was tried. */
  readonly sampleId: string;
  /** The name of the experiment. */
  readonly experiment: string;
  /** What the evaluator made of the output; 0 where there is none. */
  readonly score: Score;
  /** What the agent made; missing when it failed. */
  readonly output?: O;
  /** Why there is no output, or no real score. */
  readonly error?: ResultError;
  /** How long the agent took. */
  readonly latencyMs: number;
  /** What the agent has cost. */
  readonly usage: TokenUsage;
  /** In milliseconds since the Unix epoch. */
  readonly completedAt: number;
}

/**
 * The name of one sample in one experiment of one evaluation: the id of its message, and what results are
 * told apart by.
 */
export function trialId(evaluationId: string, experiment: string, sampleId: string): string {
  return [evaluationId, experiment, sampleId].map(encodeURIComponent).join("/");
}

/** The {@linkcode trialId} that a result is of. */
export function trialIdOf({ evaluationId, experiment, sampleId }: EvalResult): string {
  return trialId(evaluationId, experiment, sampleId);
}

/** What requests must look like. */
export function requestSchema<I, E>(): StandardSchema<EvalRequest<I, E>> {
  return schemaOf((value) => {
    const { evaluationId, sample, experiment } = Object(value) as Partial<EvalRequest<I, E>>;
    const problem = problemOf(sample);
    return [
      ...(isText(evaluationId) ? [] : [issue("evaluationId", "expected a text")]),
      ...(problem === undefined ? [] : [issue("sample", problem)]),
      ...(isText(experiment?.name) ? [] : [issue("experiment", "expected one with a name")]),
    ];
  });
}

/** What results must look like. */
export function resultIssues(value: unknown): readonly SchemaIssue[] {
  const { evaluationId, sampleId, experiment, score, latencyMs, usage } = Object(
    value,
  ) as Partial<EvalResult>;
  const isCount = (it: unknown) => typeof it === "number" && it >= 0;
  const used = isCount(usage?.inputTokens) && isCount(usage?.outputTokens);
  return [
    ...(isText(evaluationId) ? [] : [issue("evaluationId", "expected a text")]),
    ...(isText(sampleId) ? [] : [issue("sampleId", "expected a text")]),
    ...(isText(experiment) ? [] : [issue("experiment", "expected a text")]),
    ...(isScore(score) ? [] : [issue("score", "expected a score")]),
    ...(isCount(latencyMs) ? [] : [issue("latencyMs", "expected milliseconds")]),
    ...(used ? [] : [issue("usage", "expected numbers of tokens")]),
  ];
}

function schemaOf<T>(issuesOf: (value: unknown) => readonly SchemaIssue[]): StandardSchema<T> {
  return {
    "~standard": {
      version: 1,
      vendor: "lastcall",
      validate(value) {
        const issues = issuesOf(value);
        return issues.length > 0 ? { issues } : { value: value as T };
      },
    },
  };
}

/** True for a text that can be a name. */
export function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

function isScore(value: unknown): boolean {
  try {
    return typeof value === "object" && checkScore(value as Score) === value;
  } catch {
    return false;
  }
}

function issue(path: string, message: string): SchemaIssue {
  return { path: [path], message };
}
