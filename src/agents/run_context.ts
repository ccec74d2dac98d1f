/** The trace that a request belongs to, as W3C headers carry it. */
export interface TraceContext {
  readonly traceparent: string;
  readonly tracestate?: string;
}

/** Which attempt at which request this is, for logs, traces and bundles. */
export interface RunContext {
  /** New for every attempt. */
  readonly runId: string;
  /** The same for all attempts at a request. */
  readonly requestId: string;
  /** From 1. */
  readonly attempt: number;
  readonly workerId: string;
  readonly trace?: TraceContext;
}
