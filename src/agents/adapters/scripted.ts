import type { Adapter, AdapterContext, Prompt } from "../adapter.ts";
import type { TokenUsage } from "../budget.ts";
import { type Clock, systemClock } from "../../clock.ts";

/** An answer of a scripted model: text, pieces of text, or an error to throw. */
export type ScriptedAnswer = string | readonly string[] | Error;

/** Options of {@linkcode scriptedAdapter}. */
export interface ScriptedAdapterOptions {
  /** The delay before each piece. @default {0} */
  readonly delayMs?: number;
  /** The token usage of each answer. @default {one token per word} */
  readonly usage?: TokenUsage;
  /** The source of time for `delayMs`. @default {systemClock} */
  readonly clock?: Clock;
}

/**
 * Returns an adapter that needs no model, for tests and examples. A list gives one answer per call and then
 * repeats the last one. A function makes the answer from the prompt.
 *
 * @example
 * ```ts
 * import { scriptedAdapter } from "@lastcall/lastcall/agents";
 *
 * const parrot = scriptedAdapter(({ messages }) => messages.at(-1)!.content);
 * const moody = scriptedAdapter([new Error("busy"), ["Hel", "lo"]], { delayMs: 20 });
 * console.log(parrot.name, moody.name);
 * ```
 */
export function scriptedAdapter(
  script:
    | readonly ScriptedAnswer[]
    | ((prompt: Prompt, context: AdapterContext) => ScriptedAnswer | Promise<ScriptedAnswer>),
  options: ScriptedAdapterOptions = {},
): Adapter {
  const { delayMs = 0, usage, clock = systemClock } = options;
  let calls = 0;
  const next = (): ScriptedAnswer => {
    const answers = script as readonly ScriptedAnswer[];
    return answers[Math.min(calls++, answers.length - 1)] ?? "";
  };
  return {
    name: "scripted",
    async *evaluate(prompt, context) {
      context.budget.check();
      const answer = typeof script === "function" ? await script(prompt, context) : next();
      const pieces = typeof answer === "string" ? [answer] : answer instanceof Error ? [] : answer;
      for (const piece of pieces) {
        if (delayMs > 0) await clock.sleep(delayMs, { signal: context.signal });
        yield piece;
      }
      if (answer instanceof Error) throw answer;
      const words = (texts: readonly string[]) =>
        texts.join(" ").split(/\s+/).filter(Boolean).length;
      context.budget.spend(
        usage ?? {
          inputTokens: words(prompt.messages.map(({ content }) => content)),
          outputTokens: words(pieces),
        },
      );
    },
  };
}
