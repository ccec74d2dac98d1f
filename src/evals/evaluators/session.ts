import { checkCount } from "../../_checks.ts";
import type { Session } from "../../agents/session.ts";
import type { Evaluator } from "../evaluator.ts";
import { passOrFail, type Score } from "../score.ts";

/**
 * Judges how an output came about instead of the output itself.
 *
 * @example
 * ```ts
 * import { sessionEvaluator } from "@lastcall/lastcall/evals";
 *
 * const usedNoTool = sessionEvaluator(({ turns }) => turns.every(({ role }) => role !== "tool"));
 * console.log(usedNoTool);
 * ```
 */
export function sessionEvaluator(
  judge: (session: Session) => Score | boolean | Promise<Score | boolean>,
): Evaluator<unknown> {
  return (_output, _expected, { session }) => judge(session);
}

/** The session has cost no more than so many tokens, read and written together. */
export function withinTokens(most: number): Evaluator<unknown> {
  checkCount("tokens", most);
  return sessionEvaluator(({ usage: { inputTokens, outputTokens } }) => {
    return within(inputTokens + outputTokens, most, "tokens");
  });
}

/** The session has no more than so many turns, those of the prompt included. */
export function withinTurns(most: number): Evaluator<unknown> {
  checkCount("turns", most);
  return sessionEvaluator(({ turns }) => within(turns.length, most, "turns"));
}

function within(count: number, most: number, unit: string): Score {
  const passed = count <= most;
  return passOrFail(passed, passed ? undefined : `${count} ${unit}, more than ${most}`);
}
