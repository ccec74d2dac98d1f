import type { Log } from "../log.ts";
import type { MailboxLoopOptions } from "../loops/mailbox_loop.ts";
import type { StandardSchema } from "../loops/schema.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import type { Adapter, Prompt } from "./adapter.ts";
import type { AgentRequest, AgentResult } from "./agent_request.ts";
import type { Budget, BudgetTracker, TokenUsage } from "./budget.ts";
import type { RunContext } from "./run_context.ts";
import type { Session } from "./session.ts";

/** What the steps of an attempt get beside what they work on. */
export interface AgentContext {
  /** Which attempt at which request this is. */
  readonly run: RunContext;
  /** Aborted when the work must end: its deadline has passed, a stop is near its own, or the lease is lost. */
  readonly signal: AbortSignal;
  /** What the request has cost so far, and what it may still cost. */
  readonly budget: BudgetTracker;
  /** Tells the watchdog, and the lease where it depends on it, that the work is alive. */
  readonly beat: () => void;
  /** What an earlier attempt has saved. */
  readonly progress: unknown;
  /** Saves progress for the next attempt; without a mailbox there is none. */
  readonly checkpoint: (progress: unknown) => Promise<void>;
  /** The loop's log. */
  readonly log: Log;
}

/** What a request becomes before a model sees it. */
export interface Prepared<O> {
  /** What the model is asked. */
  readonly prompt: Prompt<O>;
  /** Where what is said gets written down. @default {a new one, with the request's session id} */
  readonly session?: Session;
}

/** Everything about one attempt, for those who look into it later. */
export interface AgentBundle<I, O> {
  /** The request as it came. */
  readonly request: AgentRequest<I>;
  /** Which attempt at it this was. */
  readonly runContext: RunContext;
  /** Undefined when it did not get that far. It is cleaned up after the capture. */
  readonly prompt: Prompt<O> | undefined;
  /** What was said, as far as it got. */
  readonly session: Session;
  /** What came out; missing when the attempt failed. */
  readonly output?: O;
  /** What the attempt failed with. */
  readonly error?: unknown;
  /** In milliseconds since the Unix epoch. */
  readonly startedAt: number;
  /** In milliseconds since the Unix epoch. */
  readonly completedAt: number;
}

/** Options of {@linkcode AgentLoop}. */
export interface AgentLoopOptions<I, O>
  extends
    Omit<MailboxLoopOptions<AgentRequest<I>, AgentResult<O>>, "mailbox" | "handler" | "schema"> {
  /** Where requests come from. @default {a mailbox in memory} */
  readonly requests?: Mailbox<AgentRequest<I>, AgentResult<O>>;
  /** The model. */
  readonly adapter: Adapter;
  /** Makes the prompt of a request. */
  readonly prepare: (request: I, context: AgentContext) => Prepared<O> | Promise<Prepared<O>>;
  /** May change the output before it is sent. The output stays as it is when this returns nothing. */
  readonly finalize?: (output: O, context: AgentContext) => O | void | Promise<O | void>;
  /** What requests must look like; one that does not fit is buried with the reasons. */
  readonly schema?: StandardSchema<I>;
  /** How long one attempt may take. @default {Infinity} */
  readonly deadlineMs?: number;
  /** What one attempt may cost. @default {no limit} */
  readonly budget?: Budget;
  /** Keeps everything about an attempt, before its prompt is cleaned up. A failure of it is only logged. */
  readonly captureBundle?: (bundle: AgentBundle<I, O>) => Promise<void> | void;
  /**
   * Who made the attempt, as results and bundles tell it.
   *
   * @default {the loop's name and something random}
   */
  readonly workerId?: string;
}

/** What a result does not carry. */
export interface AttemptEnd {
  /** What was said, the answer included. */
  readonly session: Session;
  /** What this attempt alone has cost. */
  readonly usage: TokenUsage;
  /** The error itself, where there is one. */
  readonly error?: unknown;
}

/** Options of {@linkcode AgentLoop.execute}. */
export interface ExecuteOptions {
  /** Ends the work when aborted; the reason is then the result's error. */
  readonly signal?: AbortSignal;
  /** Called with every sign of life of the work. */
  readonly beat?: () => void;
  /** Which attempt this is, from 1. @default {1} */
  readonly attempt?: number;
  /** Called at the end, before the result is there. */
  readonly onEnd?: (end: AttemptEnd) => void;
}
