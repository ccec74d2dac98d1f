import { errorText } from "../errors.ts";
import type { SchemaIssue, SchemaResult, StandardSchema } from "../loops/schema.ts";
import type { TraceContext } from "../telemetry/trace_context.ts";
import { type Budget, checkBudget } from "./budget.ts";
import type { RunContext } from "./run_context.ts";

/** A request as it lies in a mailbox. */
export interface AgentRequest<I> {
  /** What `prepare` makes a prompt of. */
  readonly request: I;
  /** The same for all attempts, and on the result. @default {the id of the message} */
  readonly requestId?: string;
  /** Ties requests of one conversation together; the result carries it too. */
  readonly sessionId?: string;
  /** How long one attempt may take; wins over the loop's. */
  readonly deadlineMs?: number;
  /** What it may cost; wins over the loop's. */
  readonly budget?: Budget;
  /** Whether a bundle is captured, where the loop can. @default {true} */
  readonly bundle?: boolean;
  /** The trace of whoever asks, so that the work appears in it. @default {that of the message} */
  readonly trace?: TraceContext;
}

/** An error as a result carries it. */
export interface ResultError {
  /** Of the error's class, as `DeadlineExceededError`. */
  readonly name: string;
  /** What the error said; stacks stay with the worker. */
  readonly message: string;
}

/** What became of a request: an output or an error. */
export interface AgentResult<O> {
  /** That of the request, whatever attempt this was. */
  readonly requestId: string;
  /** What the agent made; missing when it failed. */
  readonly output?: O;
  /** Why there is no output. */
  readonly error?: ResultError;
  /** That of the request, or the one the worker chose. */
  readonly sessionId: string;
  /** Which attempt came to this. */
  readonly runContext: RunContext;
  /** In milliseconds since the Unix epoch. */
  readonly completedAt: number;
}

/** An error as a result carries it. */
export function resultError(error: unknown): ResultError {
  try {
    if (error instanceof Error) return { name: `${error.name}`, message: `${error.message}` };
  } catch {
    // A getter of the error throws; its text below is all there is.
  }
  return { name: "Error", message: errorText(error) };
}

/** Checks the envelope, and the request in it where there is a schema for that. */
export function requestSchema<I>(inner?: StandardSchema<I>): StandardSchema<AgentRequest<I>> {
  return {
    "~standard": {
      version: 1,
      vendor: "lastcall",
      async validate(value): Promise<SchemaResult<AgentRequest<I>>> {
        const issues = envelopeIssues(value);
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

function envelopeIssues(value: unknown): readonly SchemaIssue[] {
  if (typeof value !== "object" || value === null || !("request" in value)) {
    return [{ message: 'expected an object with a "request"' }];
  }
  const { requestId, sessionId, deadlineMs, budget, trace } = value as AgentRequest<unknown>;
  const isText = (it: unknown) => it === undefined || (typeof it === "string" && it !== "");
  const checks: readonly (readonly [path: string, fits: boolean, expected: string])[] = [
    ["requestId", isText(requestId), "a text"],
    ["sessionId", isText(sessionId), "a text"],
    ["deadlineMs", deadlineMs === undefined || deadlineMs > 0, "a number above 0"],
    ["budget", budget === undefined || isBudget(budget), "limits that are whole numbers from 1"],
    ["trace", trace === undefined || isText(trace?.traceparent ?? 0), "a traceparent"],
  ];
  return checks.flatMap(([path, fits, expected]) =>
    fits ? [] : [{ path: [path], message: `expected ${expected}` }]
  );
}

function isBudget(budget: Budget): boolean {
  try {
    return typeof checkBudget(budget) === "object";
  } catch {
    return false;
  }
}
