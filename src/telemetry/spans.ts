import { errorText } from "../errors.ts";
import type { Context, OpenTelemetry, Span } from "./open_telemetry.ts";
import { openTelemetry } from "./open_telemetry.ts";
import type { TraceContext } from "./trace_context.ts";

/** What every span and every metric of messages says. */
export function messagingAttributes(
  mailbox: string,
  operation: "send" | "process",
): Record<string, string> {
  return {
    "messaging.system": "lastcall",
    "messaging.destination.name": mailbox,
    "messaging.operation.name": operation,
    "messaging.operation.type": operation,
  };
}

/** The context that goes on with a trace from elsewhere; without one, with a new trace. */
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

/** What goes on with this span elsewhere; undefined for a span that is none. */
export function traceOf(api: OpenTelemetry, span: Span): TraceContext | undefined {
  const context = span.spanContext();
  if (!api.isSpanContextValid(context)) return undefined;
  const { traceId, spanId, traceFlags, traceState } = context;
  const flags = traceFlags.toString(16).padStart(2, "0");
  const traceparent = `00-${traceId}-${spanId}-${flags}`;
  const tracestate = traceState?.serialize() ?? "";
  return tracestate === "" ? { traceparent } : { traceparent, tracestate };
}

/** Writes down what went wrong. */
export function fail(api: OpenTelemetry, span: Span, error: unknown): void {
  const exception = error instanceof Error ? error : new Error(errorText(error));
  span.recordException(exception);
  span.setAttribute("error.type", exception.name);
  span.setStatus({ code: api.SpanStatusCode.ERROR, message: exception.message });
}

/** Has messages sent within a span, with its trace unless they have one already. */
export async function sending(
  mailbox: string,
  given: TraceContext | undefined,
  send: (trace: TraceContext | undefined) => Promise<string[]>,
): Promise<string[]> {
  const api = await openTelemetry();
  if (api === undefined) return await send(given);
  const parent = given === undefined ? api.context.active() : contextOf(api, given);
  const span = api.trace.getTracer("lastcall").startSpan(
    `send ${mailbox}`,
    { kind: api.SpanKind.PRODUCER, attributes: messagingAttributes(mailbox, "send") },
    parent,
  );
  try {
    const within = api.trace.setSpan(parent, span);
    const ids = await api.context.with(within, () => send(given ?? traceOf(api, span)));
    if (ids.length === 1) span.setAttribute("messaging.message.id", ids[0]!);
    else span.setAttribute("messaging.batch.message_count", ids.length);
    return ids;
  } catch (error) {
    fail(api, span, error);
    throw error;
  } finally {
    span.end();
  }
}
