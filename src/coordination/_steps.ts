import type { Clock } from "../clock.ts";
import { deferred } from "../_promises.ts";
import type { Deadline } from "../lifecycle/deadline.ts";
import { SHUTDOWN_STEPS, type ShutdownStep, type ShutdownStepName } from "./shutdown_report.ts";

/** Does a step within its time; `signal` aborts when that is up. */
export type Act = (signal: AbortSignal, budgetMs: number) => unknown;

/** A step came to its end without having done all there was to do, for lack of time. */
export class OutOfTimeError extends Error {
  override readonly name = "OutOfTimeError";
}

/**
 * Runs steps one after another under one deadline, and writes down how each went. A step may take what
 * is left but for a share of the reserve for each step after it, so that one that hangs cannot keep the
 * others from being tried.
 */
export class Steps {
  readonly done: ShutdownStep[] = [];
  readonly #deadline: Deadline;
  readonly #clock: Clock;

  constructor(deadline: Deadline, clock: Clock) {
    this.#deadline = deadline;
    this.#clock = clock;
  }

  /** True when every step so far went well. */
  get good(): boolean {
    return this.done.every(({ outcome }) => outcome === "done" || outcome === "skipped");
  }

  /** Runs the next step. It never rejects. With nothing to do it is skipped. */
  async run(name: ShutdownStepName, act: Act | undefined): Promise<void> {
    const startedAt = this.#clock.monotonic();
    const { outcome, error } = act === undefined
      ? { outcome: "skipped" as const, error: undefined }
      : await this.#run(name, act);
    const durationMs = this.#clock.monotonic() - startedAt;
    this.done.push({ name, outcome, durationMs, ...(error !== undefined && { error }) });
  }

  async #run(
    name: ShutdownStepName,
    act: Act,
  ): Promise<{ readonly outcome: ShutdownStep["outcome"]; readonly error?: unknown }> {
    const budgetMs = this.#budgetMs(name);
    const expired = new AbortController();
    const over = deferred<"over">();
    const cancel = this.#clock.schedule(budgetMs, () => {
      expired.abort(new OutOfTimeError(`Step ${name} had ${Math.round(budgetMs)} ms`));
      over.resolve("over");
    });
    const work = Promise.resolve().then(() => act(expired.signal, budgetMs));
    try {
      const first = await Promise.race([work.then(() => "done" as const), over.promise]);
      if (first === "done") return { outcome: "done" };
      work.catch(() => {}); // nobody waits for it any more
      return { outcome: "timed_out", error: expired.signal.reason };
    } catch (error) {
      return { outcome: error instanceof OutOfTimeError ? "timed_out" : "failed", error };
    } finally {
      cancel();
    }
  }

  #budgetMs(name: ShutdownStepName): number {
    const { remainingMs, reserveMs } = this.#deadline;
    const later = SHUTDOWN_STEPS.length - 1 - SHUTDOWN_STEPS.indexOf(name);
    return Math.max(0, remainingMs - reserveMs * later / SHUTDOWN_STEPS.length);
  }
}
