import { show } from "../_checks.ts";
import type { Session } from "../agents/session.ts";
import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import type { Experiment, Sample } from "./dataset.ts";

/** The quality of an output. */
export interface Score {
  /** From 0 (worst) to 1 (best). */
  readonly value: number;
  /** Whether the output is good enough. */
  readonly passed: boolean;
  /** An explanation for people. */
  readonly reason?: string;
}

/** The third argument of an {@linkcode Evaluator}. */
export interface EvaluatorContext {
  /** The sample that the output answers. */
  readonly sample: Sample<unknown>;
  /** The experiment that the sample runs in. */
  readonly experiment: Experiment;
  /** The agent's conversation and its token usage. */
  readonly session: Session;
  /** Aborts when the loop no longer needs the score. */
  readonly signal: AbortSignal;
  /** Reports progress to the watchdog during long work. */
  readonly beat: () => void;
  /** The loop's clock. */
  readonly clock: Clock;
  /** The loop's log. */
  readonly log: Log;
}

/**
 * Scores an output. When it throws, the sample gets a failed result with the error.
 *
 * @example
 * ```ts
 * import { allOf, type Evaluator, withinTokens } from "@lastcall/lastcall/evals";
 *
 * const polite: Evaluator<string> = (output) => /please|thank/i.test(output);
 * const politeAndShort = allOf(polite, withinTokens(200));
 * console.log(politeAndShort);
 * ```
 */
export type Evaluator<O, E = unknown> = (
  output: O,
  expected: E | undefined,
  context: EvaluatorContext,
) => Score | boolean | Promise<Score | boolean>;

/** Returns a score with the value 1 or 0. */
export function passOrFail(passed: boolean, reason?: string): Score {
  return { value: passed ? 1 : 0, passed, ...(reason === undefined ? {} : { reason }) };
}

/**
 * Converts the return value of an evaluator to a score.
 *
 * @throws {TypeError} when it is neither a boolean nor a valid score.
 */
export function toScore(returned: Score | boolean): Score {
  if (typeof returned === "boolean") return passOrFail(returned);
  const { value, passed, reason } = Object(returned) as Partial<Score>;
  const isScore = typeof value === "number" && value >= 0 && value <= 1 &&
    typeof passed === "boolean" && (reason === undefined || typeof reason === "string");
  if (isScore) return returned;
  throw new TypeError(
    "Invalid score: expected true, false or { value from 0 to 1, passed, reason? }, got " +
      (typeof returned === "object" ? JSON.stringify(returned) : show(returned)),
  );
}
