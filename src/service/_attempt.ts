import { abortable, onAbort } from "../_promises.ts";
import type { Clock } from "../clock.ts";
import { DeadlineExceededError, isTerminatingError } from "../errors.ts";
import { isTracing, openTelemetry } from "../telemetry/open_telemetry.ts";
import { fail } from "../telemetry/spans.ts";
import type { Choice } from "./_worker.ts";
import type { AttemptOutcome, PoolCall } from "./pool_options.ts";
import { isCapacityError, isUnreachableError } from "./service_errors.ts";

/** One request of a caller, with one or more attempts. */
export interface PoolRequest<T> {
  readonly call: PoolCall<T>;
  readonly deadlineMs: number;
  /** The deadline, in milliseconds of the monotonic clock. */
  readonly endsAt: number;
  readonly signal: AbortSignal | undefined;
}

/** An attempt without an answer. */
export interface Failed {
  readonly outcome: Exclude<AttemptOutcome, "answered">;
  readonly error: unknown;
}

/** The result of an attempt. */
export type Attempted<T> = { readonly outcome: "answered"; readonly value: T } | Failed;

/** Sends the request to one worker once. */
export async function attempt<T>(
  { worker, noneHealthy }: Choice,
  { call, deadlineMs, endsAt, signal: caller }: PoolRequest<T>,
  number: number,
  span: AttemptSpan,
  clock: Clock,
): Promise<Attempted<T>> {
  const controller = new AbortController();
  const { signal } = controller;
  const remainingMs = endsAt - clock.monotonic();
  const cancel = clock.schedule(
    Math.max(0, remainingMs),
    () => controller.abort(new DeadlineExceededError(deadlineMs)),
  );
  const unlink = onAbort(caller, () => controller.abort(caller?.reason));
  let [holders, over] = [0, false];
  const end = () => {
    if (over) return;
    over = true;
    cancel();
    unlink();
    worker.inFlight--;
  };
  const hold = () => {
    let held = true;
    holders++;
    return () => {
      if (held && --holders === 0) end();
      held = false;
    };
  };
  worker.inFlight++;
  const done = hold();
  // A body that is never read does not notice the abort, so its holder would never end the attempt.
  signal.addEventListener("abort", end, { once: true });
  try {
    signal.throwIfAborted();
    const context = {
      signal,
      attempt: number,
      remainingMs,
      noneHealthy,
      traceHeaders: span.headers,
      hold,
    };
    const value = await abortable(call(worker.address, context), signal);
    return { outcome: "answered", value };
  } catch (error) {
    return { outcome: outcomeOf(error, signal, caller), error };
  } finally {
    done();
  }
}

function outcomeOf(
  error: unknown,
  signal: AbortSignal,
  caller: AbortSignal | undefined,
): Failed["outcome"] {
  if (signal.aborted) return caller?.aborted === true ? "aborted" : "deadline";
  if (isTerminatingError(error)) return "terminating";
  if (isUnreachableError(error)) return "unreachable";
  return isCapacityError(error) ? "capacity" : "failed";
}

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
