import type { Log } from "../log.ts";
import type { MailboxLoopOptions } from "../loops/mailbox_loop.ts";
import type { StandardSchema } from "../loops/schema.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import type { Adapter, Prompt, RunContext } from "./adapter.ts";
import type { AgentRequest, AgentResult } from "./agent_request.ts";
import type { Budget, BudgetTracker, TokenUsage } from "./budget.ts";
import type { Session } from "./session.ts";

/** The second argument of `prepare` and `finalize`. */
export interface AgentContext {
  /** Identifies this attempt. */
  readonly run: RunContext;
  /** Aborts when the deadline has passed, when a stop runs out of time, or when the lease is lost. */
  readonly signal: AbortSignal;
  /** Counts the tokens of this attempt. */
  readonly budget: BudgetTracker;
  /** Reports progress to the watchdog, and to the lease when it depends on heartbeats. */
  readonly beat: () => void;
  /** The value that an earlier attempt saved with `checkpoint`. */
  readonly progress: unknown;
  /** Saves progress for the next attempt. Does nothing when the request is in no mailbox. */
  readonly checkpoint: (progress: unknown) => Promise<void>;
  /** The loop's log. */
  readonly log: Log;
}

/** The result of `prepare`. */
export interface Prepared<O> {
  /** The input of the model. */
  readonly prompt: Prompt<O>;
  /** The session that records the conversation. @default {a new one with the request's session id} */
  readonly session?: Session;
}

/** All data of one attempt, for later analysis. */
export interface AgentBundle<I, O> {
  /** The request as received. */
  readonly request: AgentRequest<I>;
  /** Identifies the attempt. */
  readonly runContext: RunContext;
  /** The prompt; undefined when `prepare` failed. Its `cleanup` runs after the capture. */
  readonly prompt: Prompt<O> | undefined;
  /** The conversation, also when it is incomplete. */
  readonly session: Session;
  /** The output; missing after a failure. */
  readonly output?: O;
  /** The thrown value; missing after a success. */
  readonly error?: unknown;
  /** The start of the attempt in milliseconds since the Unix epoch. */
  readonly startedAt: number;
  /** The end of the attempt in milliseconds since the Unix epoch. */
  readonly completedAt: number;
}

/** Options of {@linkcode AgentLoop}. */
export interface AgentLoopOptions<I, O>
  extends
    Omit<MailboxLoopOptions<AgentRequest<I>, AgentResult<O>>, "mailbox" | "handler" | "schema"> {
  /** The mailbox that the loop receives requests from. @default {a new `InMemoryMailbox`} */
  readonly requests?: Mailbox<AgentRequest<I>, AgentResult<O>>;
  /** The model provider. */
  readonly adapter: Adapter;
  /** Makes the prompt for a request. */
  readonly prepare: (request: I, context: AgentContext) => Prepared<O> | Promise<Prepared<O>>;
  /** Changes the output before the loop sends it. Returning nothing leaves the output unchanged. */
  readonly finalize?: (output: O, context: AgentContext) => O | void | Promise<O | void>;
  /** Checks requests. The loop dead-letters an invalid request with the issues as the reason. */
  readonly schema?: StandardSchema<I>;
  /** The time limit of one attempt. @default {Infinity} */
  readonly deadlineMs?: number;
  /** The token limits of one attempt. @default {no limits} */
  readonly budget?: Budget;
  /** Stores the data of an attempt before the prompt's cleanup. The loop only logs its failure. */
  readonly captureBundle?: (bundle: AgentBundle<I, O>) => Promise<void> | void;
  /**
   * Identifies this worker in results and bundles.
   *
   * @default {the loop's name and a random suffix}
   */
  readonly workerId?: string;
}

/** The data of an attempt that its result does not carry. */
export interface AttemptEnd {
  /** The conversation, including the answer. */
  readonly session: Session;
  /** The tokens of this attempt. */
  readonly usage: TokenUsage;
  /** The thrown value; missing after a success. */
  readonly error?: unknown;
}

/** Options of {@linkcode AgentLoop.execute}. */
export interface ExecuteOptions {
  /** Cancels the attempt. The result then carries the signal's reason as its error. */
  readonly signal?: AbortSignal;
  /** Called for each heartbeat of the attempt. */
  readonly beat?: () => void;
  /** The number of this attempt, from 1. @default {1} */
  readonly attempt?: number;
  /** Called when the attempt has ended, before `execute` resolves. */
  readonly onEnd?: (end: AttemptEnd) => void;
}
