import type { Log } from "../log.ts";
import type { BudgetTracker } from "./budget.ts";
import type { RunContext } from "./run_context.ts";
import type { Turn } from "./session.ts";

/** What is asked of a model, and what it holds meanwhile. */
export interface Prompt<O = unknown> {
  /** The conversation so far, oldest first; the last one is usually the user's. */
  readonly messages: readonly Turn[];
  /** Makes the output of the answer. @default {the answer itself} */
  parse?(answer: string): O | Promise<O>;
  /** Gives back what the prompt holds, as a temporary folder. Called once, however it ends. */
  cleanup?(): Promise<void> | void;
}

/** What an adapter gets beside the prompt. */
export interface AdapterContext {
  /** Aborted when the answer is not wanted any more. */
  readonly signal: AbortSignal;
  /** Which attempt at which request the call belongs to. */
  readonly run: RunContext;
  /** To be asked before a call, and told after it. */
  readonly budget: BudgetTracker;
  /** The loop's log. */
  readonly log: Log;
}

/** A model provider: answers a prompt, piece by piece. */
export interface Adapter {
  /** For logs. */
  readonly name: string;
  /** The pieces of the answer, as they come. It throws when there is none, or when it breaks off. */
  evaluate(prompt: Prompt, context: AdapterContext): AsyncIterable<string>;
}
