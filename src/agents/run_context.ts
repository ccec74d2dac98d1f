/** The trace that a request belongs to, as W3C headers carry it. */
export interface TraceContext {
  /** The trace and the span above, in the form `00-<trace>-<span>-<flags>`. */
  readonly traceparent: string;
  /** What vendors add to it; passed on as it came. */
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
  /** Who makes the attempt. */
  readonly workerId: string;
  /** The trace of whoever asked, where the request carried one. */
  readonly trace?: TraceContext;
}
