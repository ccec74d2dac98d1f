import type { Clock } from "../clock.ts";
import { deferred } from "../_promises.ts";
import type { Deadline } from "../lifecycle/deadline.ts";
import { SHUTDOWN_STEPS, type ShutdownStep, type ShutdownStepName } from "./shutdown_report.ts";

/** The action of a step. `signal` aborts when its time is up. */
export type Act = (signal: AbortSignal, budgetMs: number) => unknown;

/** A step ended before it was complete, because its time was up. */
export class OutOfTimeError extends Error {
  override readonly name = "OutOfTimeError";
}

/**
 * Runs steps one after another under one deadline, and records their outcomes. Each step leaves a share of
 * the reserve for every later one, so that a hung step does not prevent the others.
 */
export class Steps {
  readonly done: ShutdownStep[] = [];
  readonly #deadline: Deadline;
  readonly #clock: Clock;

  constructor(deadline: Deadline, clock: Clock) {
    this.#deadline = deadline;
    this.#clock = clock;
  }

  /** True when every step so far was done or skipped. */
  get good(): boolean {
    return this.done.every(({ outcome }) => outcome === "done" || outcome === "skipped");
  }

  /** Runs the next step, or skips it without an action. Never rejects. */
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
      work.catch(() => {}); // the step has timed out, so its late error is ignored
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
