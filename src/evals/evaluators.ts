import { checkCount, show } from "../_checks.ts";
import type { Session } from "../agents/session.ts";
import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import type { HandlerContext } from "../loops/handler.ts";
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
  /**
   * Runs a part of the evaluation once per sample: see `AgentContext.step`. The names of the steps differ from
   * those of the agent, which are saved with the same sample.
   */
  readonly step: HandlerContext["step"];
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

/** The length of a value in the reason of a score. */
const MAX_EXCERPT_CHARACTERS = 80;

/**
 * Passes when the output equals the expected value. Objects and arrays are compared deeply, and the order
 * of keys does not matter.
 *
 * @throws {TypeError} when the sample has no expected value.
 */
export function exactMatch<T>(output: T, expected: T | undefined): Score {
  if (isEqual(output, required(expected))) return passOrFail(true);
  return passOrFail(false, `expected ${excerpt(expected)}, got ${excerpt(output)}`);
}

/**
 * Passes when the output contains the expected string, or all of several. Case matters; use `adapt` to
 * ignore it.
 *
 * @throws {TypeError} when the output is not a string, or the sample has no expected value.
 */
export function contains(output: string, expected: string | readonly string[] | undefined): Score {
  if (typeof output !== "string") {
    throw new TypeError(`Cannot search an output that is not a string: ${excerpt(output)}`);
  }
  const texts = [required(expected)].flat() as readonly string[];
  const missing = texts.filter((text) => !output.includes(text));
  if (missing.length === 0) return passOrFail(true);
  const reason = `${missing.map(excerpt).join(" and ")} not in ${excerpt(output)}`;
  return { value: 1 - missing.length / texts.length, passed: false, reason };
}

/**
 * Returns an evaluator that scores the agent's conversation instead of its output.
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
  score: (session: Session) => Score | boolean | Promise<Score | boolean>,
): Evaluator<unknown> {
  return (_output, _expected, { session }) => score(session);
}

/** Returns an evaluator that passes when the agent used at most `most` tokens, input and output together. */
export function withinTokens(most: number): Evaluator<unknown> {
  checkCount("tokens", most);
  return sessionEvaluator(({ usage: { inputTokens, outputTokens } }) => {
    return atMost(inputTokens + outputTokens, most, "tokens");
  });
}

/** Returns an evaluator that passes when the session has at most `most` turns, including the prompt. */
export function withinTurns(most: number): Evaluator<unknown> {
  checkCount("turns", most);
  return sessionEvaluator(({ turns }) => atMost(turns.length, most, "turns"));
}

/** Returns an evaluator that passes when all evaluators pass. Its value is the mean of their values. */
export function allOf<O, E>(...evaluators: readonly Evaluator<O, E>[]): Evaluator<O, E> {
  checkEvaluators("allOf", evaluators);
  return async (...args) => {
    const scores = await scoreAll(evaluators, args);
    const value = scores.reduce((sum, score) => sum + score.value, 0) / scores.length;
    return { value, ...overall(scores, scores.every(({ passed }) => passed)) };
  };
}

/** Returns an evaluator that passes when any evaluator passes. Its value is the highest of their values. */
export function anyOf<O, E>(...evaluators: readonly Evaluator<O, E>[]): Evaluator<O, E> {
  checkEvaluators("anyOf", evaluators);
  return async (...args) => {
    const scores = await scoreAll(evaluators, args);
    const value = Math.max(...scores.map((score) => score.value));
    return { value, ...overall(scores, scores.some(({ passed }) => passed)) };
  };
}

/** The conversions that {@linkcode adapt} applies. */
export interface Adaptation<O, E, P, F> {
  /** Converts the output of the agent. @default {no conversion} */
  readonly output?: (output: O) => P;
  /** Converts the expected value of the sample. @default {no conversion} */
  readonly expected?: (expected: E) => F;
}

/**
 * Returns an evaluator that converts the output and the expected value before it calls `evaluator`, for
 * example to compare one field or to ignore case.
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
  return (original, originalExpected, context) => {
    const converted = output === undefined ? original as unknown as P : output(original);
    const convertedExpected = originalExpected === undefined || expected === undefined
      ? originalExpected as F | undefined
      : expected(originalExpected);
    return evaluator(converted, convertedExpected, context);
  };
}

async function scoreAll<O, E>(
  evaluators: readonly Evaluator<O, E>[],
  args: Parameters<Evaluator<O, E>>,
): Promise<readonly Score[]> {
  const scores: Score[] = [];
  // Sequential, because several evaluators may call the same model provider.
  for (const evaluator of evaluators) scores.push(toScore(await evaluator(...args)));
  return scores;
}

/** Joins the reasons of the scores that agree with the overall result. */
function overall(scores: readonly Score[], passed: boolean): Pick<Score, "passed" | "reason"> {
  const reasons = scores.flatMap((score) =>
    score.passed !== passed || score.reason === undefined ? [] : [score.reason]
  );
  return reasons.length === 0 ? { passed } : { passed, reason: reasons.join("; ") };
}

function checkEvaluators(name: string, evaluators: readonly unknown[]): void {
  if (evaluators.length > 0 && evaluators.every((it) => typeof it === "function")) return;
  throw new TypeError(`Invalid ${name}: expected one or more evaluator functions`);
}

function atMost(count: number, most: number, unit: string): Score {
  const passed = count <= most;
  return passOrFail(passed, passed ? undefined : `${count} ${unit}, more than ${most}`);
}

function required<T>(expected: T | undefined): T {
  if (expected !== undefined) return expected;
  throw new TypeError('The sample has no "expected" value: add one, or use another evaluator');
}

function excerpt(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length <= MAX_EXCERPT_CHARACTERS ? text : `${text.slice(0, MAX_EXCERPT_CHARACTERS)}…`;
}

/** Compares values that JSON can represent. */
function isEqual(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const [left, right] = [a, b] as unknown as readonly Readonly<Record<string, unknown>>[];
  const keys = Object.keys(left!);
  return keys.length === Object.keys(right!).length &&
    keys.every((key) => Object.hasOwn(right!, key) && isEqual(left![key], right![key]));
}
