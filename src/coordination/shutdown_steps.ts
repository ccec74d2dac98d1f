import { deferred } from "../_promises.ts";
import type { Clock } from "../clock.ts";
import type { Deadline } from "../lifecycle/deadline.ts";

/** The steps of a coordinated stop, in their order. */
export const SHUTDOWN_STEPS = [
  "announce_state",
  "broadcast",
  "mark_unhealthy",
  "drain_inbox",
  "stop_liveness",
  "release_bus",
  "stop_orphans",
  "clean_up",
  "complete_state",
  "final_health",
] as const;

/** The name of a step. */
export type ShutdownStepName = typeof SHUTDOWN_STEPS[number];

/** The result of one step. */
export interface ShutdownStep {
  /** The name of the step. */
  readonly name: ShutdownStepName;
  /** How the step ended. `skipped`: it had nothing to do. The next step runs in any case. */
  readonly outcome: "done" | "failed" | "timed_out" | "skipped";
  /** The duration in milliseconds. */
  readonly durationMs: number;
  /** The error of a step that failed or timed out. */
  readonly error?: unknown;
}

/** The number of messages of an inbox, by what happened to them. */
export interface DrainCounts {
  /** Handled and acknowledged. */
  readonly processed: number;
  /** Dead-lettered, because the handler threw or the message is malformed. */
  readonly failed: number;
  /** Of unknown types, and moved to the archive. */
  readonly archived: number;
  /** Sent to the successor. */
  readonly handedOver: number;
  /** Received and released unfinished. */
  readonly released: number;
  /** Left in the inbox at the end; undefined when they could not be counted. */
  readonly left: number | undefined;
}

/** The result of a coordinated stop. */
export interface ShutdownReport extends DrainCounts {
  /** The id of the member that was stopped. */
  readonly agentId: string;
  /** True when no step failed or timed out, and no message is left in the inbox. */
  readonly complete: boolean;
  /** The time from the start of the first step to the end of the last, in milliseconds. */
  readonly durationMs: number;
  /** All ten steps, in order. */
  readonly steps: readonly ShutdownStep[];
}

/** The action of a step. `signal` aborts when its time is up. */
export type StepAction = (signal: AbortSignal, budgetMs: number) => unknown;

/** A step ended before it was complete, because its time was up. */
export class OutOfTimeError extends Error {
  override readonly name = "OutOfTimeError";
}

/**
 * Runs steps one after another under one deadline, and records their outcomes. Each step leaves a share of
 * the reserve for every later one, so that a hung step does not prevent the others.
 */
export class ShutdownSteps {
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
  async run(name: ShutdownStepName, action: StepAction | undefined): Promise<void> {
    const startedAt = this.#clock.monotonic();
    const { outcome, error } = action === undefined
      ? { outcome: "skipped" as const, error: undefined }
      : await this.#run(name, action);
    const durationMs = this.#clock.monotonic() - startedAt;
    this.done.push({ name, outcome, durationMs, ...(error !== undefined && { error }) });
  }

  async #run(
    name: ShutdownStepName,
    action: StepAction,
  ): Promise<{ readonly outcome: ShutdownStep["outcome"]; readonly error?: unknown }> {
    const budgetMs = this.#budgetMs(name);
    const expired = new AbortController();
    const over = deferred<"over">();
    const cancel = this.#clock.schedule(budgetMs, () => {
      expired.abort(new OutOfTimeError(`Step ${name} had ${Math.round(budgetMs)} ms`));
      over.resolve("over");
    });
    const work = Promise.resolve().then(() => action(expired.signal, budgetMs));
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
