import type { TraceContext } from "../telemetry/trace_context.ts";

/** Which attempt at which request this is, for logs, traces and bundles. */
export interface RunContext {
  /** New for every attempt. */
  readonly runId: string;
  /** The same for all attempts at a request. */
  readonly requestId: string;
  /** From 1. */
  readonly attempt: number;
  /** Who makes the attempt. */
  readonly workerId: string;
  /** The trace of whoever asked: that of the request, or else of its message. */
  readonly trace?: TraceContext;
}
