import type { Context, OpenTelemetry, Span } from "./open_telemetry.ts";

/** The trace that a message or a request belongs to, as W3C headers carry it. */
export interface TraceContext {
  /** The trace and its parent span, in the form `00-<trace>-<span>-<flags>`. */
  readonly traceparent: string;
  /** Vendor-specific data, at most 512 characters. It is passed on unchanged. */
  readonly tracestate?: string;
}

const TRACEPARENT = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;
const TRACESTATE = /^[\x20-\x7e]{0,512}$/;

/** Returns the trace in the headers of a message; undefined when there is none, or an invalid one. */
export function traceIn(headers: Readonly<Record<string, unknown>>): TraceContext | undefined {
  const { traceparent, tracestate } = headers;
  if (typeof traceparent !== "string" || !TRACEPARENT.test(traceparent)) return undefined;
  const isValidState = typeof tracestate === "string" && TRACESTATE.test(tracestate);
  return isValidState ? { traceparent, tracestate } : { traceparent };
}

/** Returns the OpenTelemetry context that continues `trace`. Without a trace it starts a new one. */
export function contextOf(api: OpenTelemetry, trace: TraceContext | undefined): Context {
  const { ROOT_CONTEXT, createTraceState } = api;
  if (trace === undefined) return ROOT_CONTEXT;
  const [, traceId = "", spanId = "", flags = ""] = trace.traceparent.split("-");
  const { tracestate } = trace;
  return api.trace.setSpanContext(ROOT_CONTEXT, {
    traceId,
    spanId,
    traceFlags: parseInt(flags, 16),
    isRemote: true,
    ...(tracestate === undefined ? {} : { traceState: createTraceState(tracestate) }),
  });
}

/** Returns the trace context that makes a remote span a child of `span`, or undefined if `span` is invalid. */
export function traceOf(api: OpenTelemetry, span: Span): TraceContext | undefined {
  const context = span.spanContext();
  if (!api.isSpanContextValid(context)) return undefined;
  const { traceId, spanId, traceFlags, traceState } = context;
  const flags = traceFlags.toString(16).padStart(2, "0");
  const traceparent = `00-${traceId}-${spanId}-${flags}`;
  const tracestate = traceState?.serialize() ?? "";
  return tracestate === "" ? { traceparent } : { traceparent, tracestate };
}
