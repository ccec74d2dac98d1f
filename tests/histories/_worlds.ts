// The checker: all states that a queue can be in after what was observed of it.

import { type Answer, type Call, LOST } from "./_calls.ts";
import { outcomesOf, withoutAnswer } from "./_lost.ts";
import type { Rules } from "./_rules.ts";
import { type Outcome, World } from "./_world.ts";

/** More states than this say nothing any more. */
const MAX_WORLDS = 2_000;

/** An answer that no possible state explains. */
export class Violation extends Error {
  override readonly name = "Violation";
}

/** Thrown when a history has too many possible states to follow. */
export class TooUncertain extends Error {
  override readonly name = "TooUncertain";
}

/**
 * Follows a history. A call whose answer was lost has happened or not, so the checker keeps every state that
 * is still possible; later answers remove those that contradict them. When none is left, the engine has broken
 * the contract.
 */
export class Worlds {
  #worlds: World[];

  constructor(rules: Rules) {
    this.#worlds = [new World(rules)];
  }

  /** The number of possible states. */
  get count(): number {
    return this.#worlds.length;
  }

  /** Takes note of a call and its answer. `repeats` is that of {@linkcode outcomesOf}. */
  observe(client: number, call: Call, answer: Answer | typeof LOST, repeats = false): void {
    if (answer === LOST) {
      return this.#keep(this.#worlds.flatMap((it) => withoutAnswer(it, client, call)));
    }
    const outcomes = this.#worlds.flatMap((it) => outcomesOf(it, client, call, answer, repeats));
    const text = textOf(answer);
    const fitting = outcomes.filter((outcome) => textOf(answerOf(call, outcome), answer) === text);
    if (fitting.length > 0) return this.#keep(fitting.map(({ world }) => world));
    const possible = new Set(outcomes.map((it) => textOf(answerOf(call, it), answer)));
    throw new Violation(
      `The answer is ${text}, but it can only be ${[...possible].slice(0, 4).join("\n or ")}`,
    );
  }

  #keep(worlds: readonly World[]): void {
    const different = new Map(worlds.map((world) => [world.text, world]));
    if (different.size > MAX_WORLDS) {
      throw new TooUncertain(`${different.size} states are possible`);
    }
    this.#worlds = [...different.values()];
  }
}

/** Gives the answer of an outcome the form of the observed one. */
function answerOf(call: Call, { answer }: Outcome): unknown {
  switch (call.do) {
    case "send":
    case "sendMany":
      return { stored: answer };
    case "receive":
      return { received: answer };
    case "acknowledgeMany":
    case "releaseMany":
      return { results: answer };
    case "get":
      return { found: answer };
    case "look":
      return answer;
    default:
      return typeof answer === "string" ? { result: answer } : { value: answer };
  }
}

/** Returns the part of an answer that can be compared: without ids, and with the fields of `like` only. */
export function textOf(answer: unknown, like: unknown = answer): string {
  return JSON.stringify(comparable(answer, like));
}

function comparable(answer: unknown, like: unknown): unknown {
  if (Array.isArray(answer)) {
    return answer.map((it, i) => comparable(it, Array.isArray(like) ? like[i] ?? it : it));
  }
  if (typeof answer !== "object" || answer === null) return answer ?? null;
  const shape = (typeof like === "object" && like !== null ? like : answer) as object;
  const names = Object.keys(shape).filter((name) => {
    return !/^ids?$/.test(name) && shape[name as keyof typeof shape] !== undefined;
  });
  const value = answer as Record<string, unknown>;
  return Object.fromEntries(
    names.sort().map((name) => {
      return [name, comparable(value[name], shape[name as keyof typeof shape])];
    }),
  );
}
