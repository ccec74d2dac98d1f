import { errorText } from "../errors.ts";
import { type OpenTelemetry, openTelemetry, type Span } from "./open_telemetry.ts";
import { contextOf, type TraceContext, traceIn, traceOf } from "./trace_context.ts";

/** Returns the attributes that all spans and metrics of messages have. */
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

/** Records an error on a span and gives the span the error status. */
export function fail(api: OpenTelemetry, span: Span, error: unknown): void {
  const exception = error instanceof Error ? error : new Error(errorText(error));
  span.recordException(exception);
  span.setAttribute("error.type", exception.name);
  span.setStatus({ code: api.SpanStatusCode.ERROR, message: exception.message });
}

/**
 * Calls `send` within a producer span. It gets the headers that continue the trace of that span; undefined
 * when the caller's `headers` contain a trace. Resolves with what `send` returned.
 */
export async function sending<S extends { readonly id: string }>(
  mailbox: string,
  headers: Readonly<Record<string, string>>,
  send: (trace: TraceContext | undefined) => Promise<S[]>,
): Promise<S[]> {
  const api = await openTelemetry();
  if (api === undefined) return await send(undefined);
  const given = traceIn(headers);
  const parent = given === undefined ? api.context.active() : contextOf(api, given);
  const span = api.trace.getTracer("lastcall").startSpan(
    `send ${mailbox}`,
    { kind: api.SpanKind.PRODUCER, attributes: messagingAttributes(mailbox, "send") },
    parent,
  );
  try {
    const within = api.trace.setSpan(parent, span);
    const sent = await api.context.with(within, () => {
      return send(given === undefined ? traceOf(api, span) : undefined);
    });
    if (sent.length === 1) span.setAttribute("messaging.message.id", sent[0]!.id);
    else span.setAttribute("messaging.batch.message_count", sent.length);
    return sent;
  } catch (error) {
    fail(api, span, error);
    throw error;
  } finally {
    span.end();
  }
}

/** The facts about a stop that {@linkcode recordStop} needs. */
export interface StopRecord {
  readonly reason: { readonly kind: string; readonly text: string };
  readonly phases: readonly {
    readonly phase: string;
    readonly at: number;
    readonly reason: string;
  }[];
  readonly members: readonly {
    readonly loop: { readonly name: string };
    readonly state: string;
  }[];
}

/** Records a stop as a span that ends at `endedAt`, with one event for each phase. */
export async function recordStop(stop: StopRecord, endedAt: number): Promise<void> {
  const { reason, phases, members } = stop;
  // Read the states before the first await: a loop may still end while the API loads.
  const hung = members.filter(({ state }) => state === "hung").map(({ loop }) => loop.name);
  const api = await openTelemetry();
  if (api === undefined) return;
  const stopping = phases.filter(({ phase }) => phase !== "starting" && phase !== "running");
  const startTime = new Date(stopping[0]?.at ?? endedAt);
  const span = api.trace.getTracer("lastcall").startSpan("lastcall.stop", {
    startTime,
    attributes: {
      "lastcall.stop.kind": reason.kind,
      "lastcall.stop.reason": reason.text,
      "lastcall.stop.loops": members.length,
      "lastcall.stop.hung": hung.length,
    },
  }, api.ROOT_CONTEXT);
  for (const { phase, at, reason } of stopping) span.addEvent(phase, { reason }, new Date(at));
  if (hung.length > 0) {
    const message = `not ended in time: ${hung.join(", ")}`;
    span.setStatus({ code: api.SpanStatusCode.ERROR, message });
  }
  span.end(new Date(endedAt));
}
