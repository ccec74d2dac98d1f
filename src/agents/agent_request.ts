import { errorText } from "../errors.ts";
import type { SchemaIssue, SchemaResult, StandardSchema } from "../loops/schema.ts";
import type { TraceContext } from "../telemetry/trace_context.ts";
import type { RunContext } from "./adapter.ts";
import { type Budget, checkBudget } from "./budget.ts";

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
