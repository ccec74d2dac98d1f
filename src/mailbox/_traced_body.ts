import {
  isTraceContext,
  plainTrace,
  type TraceContext,
  type TracedBody,
} from "../telemetry/trace_context.ts";

/** How the stored text of a body begins that has a trace with it. */
const HEAD = '{"lastcall:trace":';
/** Ends the trace; within it a quote would be escaped. */
const BODY = '},"body":';

/** Stays JSON. A body that begins in the same way is wrapped too, so that what is wrapped is certain. */
export function wrapJson(json: string, trace: TraceContext | undefined): string {
  if (trace === undefined && !json.startsWith(HEAD)) return json;
  const written = trace === undefined ? "{}" : JSON.stringify(plainTrace(trace));
  return `${HEAD}${written.slice(0, -1)}${BODY}${json}}`;
}

/** Undefined also for what only begins like it: that was stored by somebody who knows no traces. */
export function unwrapJson(text: string): TracedBody<string> | undefined {
  if (!text.startsWith(HEAD) || !text.endsWith("}")) return undefined;
  const end = text.indexOf(BODY, HEAD.length);
  if (end < 0) return undefined;
  const trace = parse(`${text.slice(HEAD.length, end)}}`);
  const body = text.slice(end + BODY.length, -1);
  if (isTraceContext(trace)) return { body, trace: plainTrace(trace) };
  return isEmpty(trace) ? { body } : undefined;
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined; // no trace of ours
  }
}

function isEmpty(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}

/** A body that is kept as it is, with its trace. Nobody else has this class, so no body looks like it. */
class KeptWithTrace implements TracedBody<unknown> {
  readonly body: unknown;
  readonly trace: TraceContext;

  constructor(body: unknown, trace: TraceContext) {
    this.body = body;
    this.trace = trace;
  }
}

/** The same for bodies that are not written. */
export function wrapKept(body: unknown, trace: TraceContext | undefined): unknown {
  return trace === undefined ? body : new KeptWithTrace(body, plainTrace(trace));
}

/** The same for bodies that are not written. */
export function unwrapKept(stored: unknown): TracedBody<unknown> | undefined {
  return stored instanceof KeptWithTrace ? stored : undefined;
}
