import { abortable, onAbort } from "../_promises.ts";
import { DeadlineExceededError } from "../errors.ts";
import type { Clock } from "../clock.ts";
import { isTerminatingError } from "../errors.ts";
import type { Choice } from "./_choose.ts";
import type { AttemptSpan } from "./_tracing.ts";
import type { AttemptOutcome, PoolCall } from "./pool_call.ts";
import { isCapacityError, isUnreachableError } from "./pool_errors.ts";

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
