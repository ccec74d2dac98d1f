import { isTracing, openTelemetry } from "../telemetry/open_telemetry.ts";
import { fail } from "../telemetry/spans.ts";
import type { AttemptOutcome } from "./pool_call.ts";

/** The span of one attempt. */
export interface AttemptSpan {
  /** The headers that propagate the trace. */
  readonly headers: Readonly<Record<string, string>>;
  end(outcome: AttemptOutcome, error?: unknown): void;
}

/** Begins the span of an attempt. */
export type StartSpan = (attributes: Readonly<Record<string, string | number>>) => AttemptSpan;

const NO_SPAN: AttemptSpan = { headers: {}, end() {} };

/** Used where tracing is off. */
export const startNoSpan: StartSpan = () => NO_SPAN;

/** Returns a function that starts spans through OpenTelemetry, where it is installed. */
export async function loadTracing(): Promise<StartSpan> {
  const api = await openTelemetry();
  if (api === undefined) return startNoSpan;
  const { context, propagation, SpanKind, trace } = api;
  return (attributes) => {
    if (!isTracing()) return NO_SPAN;
    const options = { kind: SpanKind.CLIENT, attributes };
    const span = trace.getTracer("lastcall").startSpan("lastcall.pool.attempt", options);
    const headers: Record<string, string> = {};
    propagation.inject(trace.setSpan(context.active(), span), headers);
    return {
      headers,
      end(outcome, error) {
        span.setAttribute("lastcall.outcome", outcome);
        if (outcome !== "answered") fail(api, span, error);
        span.end();
      },
    };
  };
}
