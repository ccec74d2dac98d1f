import { errorText } from "../errors.ts";
import { settlesWithin } from "../_promises.ts";
import type { Clock } from "../clock.ts";
import type { Deadline } from "./deadline.ts";

/**
 * A resource that the loops need: a database, a health server, a metrics exporter. A group starts its
 * support in order before the loops and stops it in reverse order after them, within the same deadline.
 */
export interface Support {
  /** Its name in the report when it fails or hangs. */
  readonly name: string;
  /** Prepares the resource for the loops. `signal` aborts when a stop begins meanwhile. */
  start?(context: { readonly signal: AbortSignal }): unknown;
  /** Releases the resource. `signal` aborts when the time is up. */
  stop(context: { readonly signal: AbortSignal }): unknown;
}

/** Support whose `start` was called, and the result of that call. */
interface Started {
  readonly support: Support;
  readonly ready: Promise<unknown>;
}

/** Starts support in order, and stops the started support in reverse order. */
export class SupportStack {
  readonly #support: readonly Support[];
  readonly #clock: Clock;
  readonly #onProblem: (what: string, error: unknown) => void;
  readonly #started: Started[] = [];

  constructor(
    support: readonly Support[],
    clock: Clock,
    onProblem: (what: string, error: unknown) => void,
  ) {
    this.#support = support;
    this.#clock = clock;
    this.#onProblem = onProblem;
  }

  /** Starts one after another until all have started, one fails, or `signal` aborts. */
  async start(signal: AbortSignal): Promise<void> {
    for (const support of this.#support) {
      if (signal.aborted) return;
      const ready = Promise.resolve().then(() => support.start?.({ signal }));
      this.#started.push({ support, ready });
      try {
        await ready;
      } catch (error) {
        throw new Error(`Support "${support.name}" could not start: ${errorText(error)}`, {
          cause: error,
        });
      }
    }
  }

  /**
   * Stops all started support except the first `keep`. Each leaves a reserve for the later ones. Returns
   * the names of those that did not end in time.
   */
  async stop(deadline: Deadline, keep = 0): Promise<readonly string[]> {
    const hung: string[] = [];
    for (let left = this.#started.length; left > keep; left--) {
      const entry = this.#started.pop()!;
      const expired = new AbortController();
      const stopped = this.#stopOne(entry, expired.signal);
      if (await settlesWithin(stopped, deadline.budgetMs(left - 1), this.#clock)) continue;
      expired.abort();
      hung.push(`support "${entry.support.name}"`);
    }
    return hung;
  }

  async #stopOne({ support, ready }: Started, signal: AbortSignal): Promise<void> {
    try {
      await ready;
    } catch {
      return; // it never started, and `start` has reported why
    }
    try {
      await support.stop({ signal });
    } catch (error) {
      this.#onProblem(`support "${support.name}" failed to stop`, error);
    }
  }
}
