import { abortable } from "../_promises.ts";
import type { Log } from "../log.ts";
import type { TraceContext } from "../telemetry/trace_context.ts";
import type { BudgetTracker } from "./budget.ts";
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
