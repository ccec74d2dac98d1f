import { abortable, onAbort } from "../_promises.ts";
import { DeadlineExceededError } from "../errors.ts";
import type { Clock } from "../clock.ts";
import { isTerminatingError } from "../errors.ts";
import type { Choice } from "./_choose.ts";
import type { AttemptSpan } from "./_tracing.ts";
import type { AttemptOutcome, PoolCall } from "./pool_call.ts";
import { isCapacityError, isUnreachableError } from "./pool_errors.ts";

/** One request of a caller, whatever number of attempts it takes. */
export interface Errand<T> {
  readonly call: PoolCall<T>;
  readonly deadlineMs: number;
  /** When the time is up, by the clock's monotonic reading. */
  readonly endsAt: number;
  readonly signal: AbortSignal | undefined;
}

/** An attempt without an answer. */
export interface Failed {
  readonly outcome: Exclude<AttemptOutcome, "answered">;
  readonly error: unknown;
}

/** What came of an attempt. */
export type Attempted<T> = { readonly outcome: "answered"; readonly value: T } | Failed;

/** Asks one worker once. */
export async function attempt<T>(
  { worker, noneHealthy }: Choice,
  { call, deadlineMs, endsAt, signal: caller }: Errand<T>,
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
  // Not left to those who hold it: an answer that is never read does not notice that it was cut off.
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
