import { abortable } from "../_promises.ts";
import { type Clock, systemClock } from "../clock.ts";
import type { Log } from "../log.ts";
import type { HandlerContext } from "../loops/handler.ts";
import type { TraceContext } from "../telemetry/trace_context.ts";
import type { BudgetTracker, TokenUsage } from "./budget.ts";
import type { Turn } from "./session.ts";

/** The input of a model call, and the resources that it holds. */
export interface Prompt<O = unknown> {
  /** The conversation so far, oldest turn first. The last turn is usually the user's. */
  readonly messages: readonly Turn[];
  /** Converts the answer to the output. @default {the output is the answer} */
  parse?(answer: string): O | Promise<O>;
  /** Releases resources such as a temporary folder. The loop calls it once per attempt, also after a failure. */
  cleanup?(): Promise<void> | void;
}

/** Identifies one attempt at a request, for logs, traces and bundles. */
export interface RunContext {
  /** Unique for each attempt. */
  readonly runId: string;
  /** The same for all attempts at a request. */
  readonly requestId: string;
  /** The number of this attempt, from 1. */
  readonly attempt: number;
  /** The worker that makes the attempt. */
  readonly workerId: string;
  /** The requester's trace: the one in the request, or else the one of its message. */
  readonly trace?: TraceContext;
}

/** The second argument of {@linkcode Adapter.evaluate}. */
export interface AdapterContext {
  /** Aborts when the loop no longer needs the answer. */
  readonly signal: AbortSignal;
  /** Identifies the attempt that the call belongs to. */
  readonly run: RunContext;
  /** Limits tokens: the adapter calls `check` before a model call and `spend` after it. */
  readonly budget: BudgetTracker;
  /**
   * Reports progress to the watchdog and to the lease. The loop does so for each piece of the answer; call it
   * in work that yields nothing for minutes, such as the calls of tools.
   */
  readonly beat: () => void;
  /** Runs a part of the work, such as the call of a tool, once per request. See `AgentContext.step`. */
  readonly step: HandlerContext["step"];
  /** The loop's log. */
  readonly log: Log;
}

/** Connects a loop to a model provider. */
export interface Adapter {
  /** The name in logs and errors. */
  readonly name: string;
  /** Answers a prompt and yields the answer in pieces. Throws when the provider fails or stops early. */
  evaluate(prompt: Prompt, context: AdapterContext): AsyncIterable<string>;
}

/** An adapter ended without an answer. */
export class NoAnswerError extends Error {
  /** The class name, for logs and for checks without `instanceof`. */
  override readonly name = "NoAnswerError";
}

/**
 * Yields the pieces of an adapter's answer. Throws the signal's reason as soon as the signal aborts, also
 * when the adapter ignores the signal.
 */
export async function* answerPieces(
  adapter: Adapter,
  prompt: Prompt,
  context: AdapterContext,
): AsyncGenerator<string, void, void> {
  const pieces = adapter.evaluate(prompt, context)[Symbol.asyncIterator]();
  try {
    for (;;) {
      const { done, value } = await abortable(pieces.next(), context.signal);
      if (done) return;
      yield value;
    }
  } catch (error) {
    pieces.return?.().catch(() => {}); // not awaited: an adapter that ignores the signal may hang
    throw error;
  }
}

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
