import { errorText } from "../errors.ts";
import type { Log } from "../log.ts";
import type { LeaseExtender, LeaseExtenderOptions } from "../lease/lease_extender.ts";
import type { HandlerContext } from "../loops/handler.ts";
import type { MailboxLoopOptions } from "../loops/mailbox_loop.ts";
import type { SchemaIssue, SchemaResult, StandardSchema } from "../loops/schema.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import type { TraceContext } from "../telemetry/trace_context.ts";
import type { Adapter, Prompt, RunContext } from "./adapter.ts";
import { type Budget, type BudgetTracker, checkBudget, type TokenUsage } from "./budget.ts";
import type { Session } from "./session.ts";

/** The body of a message that asks an {@linkcode AgentLoop} for work. */
export interface AgentRequest<I> {
  /** The input of `prepare`. */
  readonly request: I;
  /** The same for all attempts, and part of the result. @default {the id of the message} */
  readonly requestId?: string;
  /** Groups the requests of one conversation. It is part of the result. @default {a random UUID} */
  readonly sessionId?: string;
  /** The time limit of one attempt. @default {the loop's `deadlineMs`} */
  readonly deadlineMs?: number;
  /** The token limits of one attempt. @default {the loop's `budget`} */
  readonly budget?: Budget;
  /** Whether the loop's `captureBundle` is called for this request. @default {true} */
  readonly bundle?: boolean;
  /** The requester's trace, which the work continues. @default {the trace of the message} */
  readonly trace?: TraceContext;
}

/** An error as a result carries it. */
export interface ResultError {
  /** The name of the error, such as `DeadlineExceededError`. */
  readonly name: string;
  /** The message of the error. The stack stays on the worker. */
  readonly message: string;
}

/** The answer to a request: an output or an error. */
export interface AgentResult<O> {
  /** The id of the request, the same for all attempts. */
  readonly requestId: string;
  /** The output of the agent; missing after a failure. */
  readonly output?: O;
  /** The failure; missing when there is an output. */
  readonly error?: ResultError;
  /** The session id of the request, or the one that the worker chose. */
  readonly sessionId: string;
  /** Identifies the attempt that made this result. */
  readonly runContext: RunContext;
  /** The time of the result in milliseconds since the Unix epoch. */
  readonly completedAt: number;
}

/** Converts a thrown value to the plain data that a result carries. Never throws. */
export function resultError(error: unknown): ResultError {
  try {
    if (error instanceof Error) return { name: `${error.name}`, message: `${error.message}` };
  } catch {
    // A getter of the error threw: use the text of the value instead.
  }
  return { name: "Error", message: errorText(error) };
}

/** Returns a schema that checks the fields of a request, and its `request` with the schema `inner`. */
export function requestSchema<I>(inner?: StandardSchema<I>): StandardSchema<AgentRequest<I>> {
  return {
    "~standard": {
      version: 1,
      vendor: "lastcall",
      async validate(value): Promise<SchemaResult<AgentRequest<I>>> {
        const issues = fieldIssues(value);
        if (issues.length > 0) return { issues };
        const body = value as AgentRequest<I>;
        if (inner === undefined) return { value: body };
        const result = await inner["~standard"].validate(body.request);
        return result.issues === undefined
          ? { value: { ...body, request: result.value } }
          : { issues: result.issues.map((it) => ({ ...it, path: ["request", ...it.path ?? []] })) };
      },
    },
  };
}

function fieldIssues(value: unknown): readonly SchemaIssue[] {
  if (typeof value !== "object" || value === null || !("request" in value)) {
    return [{ message: 'expected an object with a "request"' }];
  }
  const { requestId, sessionId, deadlineMs, budget, trace } = value as AgentRequest<unknown>;
  const isText = (it: unknown) => it === undefined || (typeof it === "string" && it !== "");
  const checks: readonly (readonly [path: string, valid: boolean, expected: string])[] = [
    ["requestId", isText(requestId), "a non-empty string"],
    ["sessionId", isText(sessionId), "a non-empty string"],
    ["deadlineMs", deadlineMs === undefined || deadlineMs > 0, "a number above 0"],
    ["budget", budget === undefined || isBudget(budget), "limits that are whole numbers from 1"],
    ["trace", trace === undefined || isText(trace?.traceparent ?? 0), "a traceparent"],
  ];
  return checks.flatMap(([path, valid, expected]) =>
    valid ? [] : [{ path: [path], message: `expected ${expected}` }]
  );
}

function isBudget(budget: Budget): boolean {
  try {
    return typeof checkBudget(budget) === "object";
  } catch {
    return false;
  }
}

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
  /**
   * Runs a part of the work, such as the call of a tool, once per request. Its result is saved with the
   * request, and later attempts return it without calling `run` again, also on another machine. The result
   * must be JSON. Each step has a name of its own, and all attempts call their steps in the same order.
   * Nothing is saved when the request is in no mailbox.
   *
   * @throws {TypeError} when the name was used before in this attempt, or an earlier attempt called another
   * step in this place, or the result is not JSON.
   */
  readonly step: HandlerContext["step"];
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
  /**
   * How leases are extended during an attempt; `false` switches it off. Unlike in a `MailboxLoop`,
   * `beatWithinMs` is 300 000 by default: an attempt that sends no heartbeat for five minutes is stuck, and
   * its request returns to the mailbox when the visibility timeout has passed. The loop sends a heartbeat for
   * each piece of an answer, each step and each part of an attempt.
   */
  readonly lease?: LeaseExtender | LeaseExtenderOptions | false;
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
  /** Runs the steps of the attempt, such as `step` of a handler's context. @default {nothing is saved} */
  readonly step?: HandlerContext["step"];
  /** The number of this attempt, from 1. @default {1} */
  readonly attempt?: number;
  /** Called when the attempt has ended, before `execute` resolves. */
  readonly onEnd?: (end: AttemptEnd) => void;
}
