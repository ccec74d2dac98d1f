import type { Evaluator } from "../evaluator.ts";
import { checkScore, type Score } from "../score.ts";

/** Passes when all do; the value is the mean of theirs. */
export function allOf<O, E>(...evaluators: readonly Evaluator<O, E>[]): Evaluator<O, E> {
  checkEvaluators("allOf", evaluators);
  return async (...subject) => {
    const scores = await scoresOf(evaluators, subject);
    const value = scores.reduce((sum, score) => sum + score.value, 0) / scores.length;
    const passed = scores.every((score) => score.passed);
    return { value, passed, ...reasonsOf(scores.filter((score) => score.passed === passed)) };
  };
}

/** Passes when at least one does; the value is the best of theirs. */
export function anyOf<O, E>(...evaluators: readonly Evaluator<O, E>[]): Evaluator<O, E> {
  checkEvaluators("anyOf", evaluators);
  return async (...subject) => {
    const scores = await scoresOf(evaluators, subject);
    const value = Math.max(...scores.map((score) => score.value));
    const passed = scores.some((score) => score.passed);
    return { value, passed, ...reasonsOf(scores.filter((score) => score.passed === passed)) };
  };
}

/** What {@linkcode adapt} changes before an evaluator sees it. */
export interface Adaptation<O, E, P, F> {
  /** Changes what the agent made. @default {the output as it is} */
  readonly output?: (output: O) => P;
  /** Changes what the sample expects. @default {what was expected, as it is} */
  readonly expected?: (expected: E) => F;
}

/**
 * Lets an evaluator judge something else: a part of the output, or a tidied form of it.
 *
 * @example
 * ```ts
 * import { adapt, exactMatch } from "@lastcall/lastcall/evals";
 *
 * const tidy = (text: string) => text.trim().toLowerCase();
 * const sameWords = adapt(exactMatch<string>, { output: tidy, expected: tidy });
 * console.log(sameWords);
 * ```
 */
export function adapt<P, F, O = P, E = F>(
  evaluator: Evaluator<P, F>,
  { output, expected }: Adaptation<O, E, P, F>,
): Evaluator<O, E> {
  checkEvaluators("adapt", [evaluator]);
  return (said, wanted, context) => {
    const adapted = output === undefined ? said as unknown as P : output(said);
    const compared = wanted === undefined || expected === undefined
      ? wanted as F | undefined
      : expected(wanted);
    return evaluator(adapted, compared, context);
  };
}

async function scoresOf<O, E>(
  evaluators: readonly Evaluator<O, E>[],
  subject: Parameters<Evaluator<O, E>>,
): Promise<readonly Score[]> {
  const scores: Score[] = [];
  // One after the other: they may ask the same provider.
  for (const evaluator of evaluators) scores.push(checkScore(await evaluator(...subject)));
  return scores;
}

function reasonsOf(scores: readonly Score[]): { readonly reason?: string } {
  const reasons = scores.flatMap(({ reason }) => reason === undefined ? [] : [reason]);
  return reasons.length === 0 ? {} : { reason: reasons.join("; ") };
}

function checkEvaluators(where: string, evaluators: readonly unknown[]): void {
  if (evaluators.length > 0 && evaluators.every((it) => typeof it === "function")) return;
  throw new TypeError(`Invalid ${where}: expected at least one evaluator, and functions only`);
}
