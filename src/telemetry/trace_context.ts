/** The trace that a message or a request belongs to, as W3C headers carry it. */
export interface TraceContext {
  /** The trace and the span above, in the form `00-<trace>-<span>-<flags>`. */
  readonly traceparent: string;
  /** What vendors add to it, 512 characters at the most; passed on as it came. */
  readonly tracestate?: string;
}

/** A stored body, and the trace that was stored with it. */
export interface TracedBody<B> {
  /** What the codec's `decode` takes. */
  readonly body: B;
  /** The trace, where there was one. */
  readonly trace?: TraceContext;
}

const TRACEPARENT = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;
const TRACESTATE = /^[\x20-\x7e]{0,512}$/;

/** Whether this can be sent along as a trace. */
export function isTraceContext(value: unknown): value is TraceContext {
  if (typeof value !== "object" || value === null) return false;
  const { traceparent, tracestate } = value as Readonly<Record<string, unknown>>;
  return typeof traceparent === "string" && TRACEPARENT.test(traceparent) &&
    (tracestate === undefined || (typeof tracestate === "string" && TRACESTATE.test(tracestate)));
}

/** The trace and nothing else that may be on the same object. */
export function plainTrace({ traceparent, tracestate }: TraceContext): TraceContext {
  return tracestate === undefined ? { traceparent } : { traceparent, tracestate };
}
