import type { Session } from "../agents/session.ts";
import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import type { Sample } from "./dataset.ts";
import type { Experiment } from "./experiment.ts";
import type { Score } from "./score.ts";

/** What an evaluator gets beside the output. */
export interface EvaluatorContext {
  /** What was tried. */
  readonly sample: Sample<unknown>;
  /** What it was tried with. */
  readonly experiment: Experiment;
  /** What was said, and what it has cost. */
  readonly session: Session;
  /** Aborted when the score is not wanted any more. */
  readonly signal: AbortSignal;
  /** Tells the watchdog that long work is alive. */
  readonly beat: () => void;
  /** That of the loop. */
  readonly clock: Clock;
  /** That of the loop. */
  readonly log: Log;
}

/**
 * Tells how good an output is. What it throws makes the sample a failed one.
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
