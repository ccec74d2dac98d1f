import type { AttemptOutcome } from "./pool_call.ts";

/** What is used of `@opentelemetry/api`. */
interface OpenTelemetry {
  readonly trace: {
    getTracer(name: string): {
      startSpan(name: string, options: object): Span;
    };
    setSpan(context: unknown, span: Span): unknown;
  };
  readonly context: { active(): unknown };
  readonly propagation: { inject(context: unknown, carrier: Record<string, string>): void };
}

interface Span {
  setAttribute(name: string, value: string): void;
  recordException(error: Error): void;
  setStatus(status: { code: number; message?: string }): void;
  end(): void;
}

/** The span of one attempt. */
export interface AttemptSpan {
  /** What carries the trace on, as headers. */
  readonly headers: Readonly<Record<string, string>>;
  end(outcome: AttemptOutcome, error?: unknown): void;
}

/** Begins the span of an attempt. */
export type StartSpan = (attributes: Readonly<Record<string, string | number>>) => AttemptSpan;

/** Not a literal: an optional peer need not be there when imports are checked. */
const MODULE: string = "@opentelemetry/api";
const CLIENT_SPAN = 2;
const STATUS_ERROR = 2;
const NO_SPAN: AttemptSpan = { headers: {}, end() {} };

/** For where nobody traces. */
export const startNoSpan: StartSpan = () => NO_SPAN;

/** Spans through OpenTelemetry where it is installed, none elsewhere. */
export async function loadTracing(): Promise<StartSpan> {
  try {
    const { trace, context, propagation } = await import(MODULE) as OpenTelemetry;
    return (attributes) => {
      const options = { kind: CLIENT_SPAN, attributes };
      const span = trace.getTracer("lastcall").startSpan("lastcall.pool.attempt", options);
      const headers: Record<string, string> = {};
      propagation.inject(trace.setSpan(context.active(), span), headers);
      return { headers, end: (outcome, error) => end(span, outcome, error) };
    };
  } catch {
    return startNoSpan; // it is not installed, and nobody misses it
  }
}

function end(span: Span, outcome: AttemptOutcome, error: unknown): void {
  span.setAttribute("lastcall.outcome", outcome);
  if (outcome !== "answered") {
    if (error instanceof Error) span.recordException(error);
    span.setStatus({ code: STATUS_ERROR, message: outcome });
  }
  span.end();
}
