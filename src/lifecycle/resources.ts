import { errorText } from "../errors.ts";
import { settlesWithin } from "../_promises.ts";
import type { Clock } from "../clock.ts";
import type { Deadline } from "./deadline.ts";

/**
 * What the loops stand on: a database, a health server, a metrics exporter. A group starts its support
 * in order before the loops and stops it in reverse order after them, within the same deadline.
 */
export interface Support {
  /** Named in the report when it fails or hangs. */
  readonly name: string;
  /** Makes it ready for the loops. `signal` aborts when a stop begins meanwhile. */
  start?(context: { readonly signal: AbortSignal }): unknown;
  /** Releases it. `signal` aborts when the time is up. */
  stop(context: { readonly signal: AbortSignal }): unknown;
}

/** Support that was told to start, and whether it has. */
interface Begun {
  readonly support: Support;
  readonly ready: Promise<unknown>;
}

/** Starts support in order and stops what was started in reverse. */
export class SupportStack {
  readonly #support: readonly Support[];
  readonly #clock: Clock;
  readonly #onProblem: (what: string, error: unknown) => void;
  readonly #begun: Begun[] = [];

  constructor(
    support: readonly Support[],
    clock: Clock,
    onProblem: (what: string, error: unknown) => void,
  ) {
    this.#support = support;
    this.#clock = clock;
    this.#onProblem = onProblem;
  }

  /** Starts one after another until all are ready, one fails, or `signal` aborts. */
  async start(signal: AbortSignal): Promise<void> {
    for (const support of this.#support) {
      if (signal.aborted) return;
      const ready = Promise.resolve().then(() => support.start?.({ signal }));
      this.#begun.push({ support, ready });
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
   * Stops what was started but the first `keep`, leaving a reserve for those after it; returns who had
   * not ended.
   */
  async stop(deadline: Deadline, keep = 0): Promise<readonly string[]> {
    const hung: string[] = [];
    for (let left = this.#begun.length; left > keep; left--) {
      const entry = this.#begun.pop()!;
      const expired = new AbortController();
      const stopped = this.#stopOne(entry, expired.signal);
      if (await settlesWithin(stopped, deadline.budgetMs(left - 1), this.#clock)) continue;
      expired.abort();
      hung.push(`support "${entry.support.name}"`);
    }
    return hung;
  }

  async #stopOne({ support, ready }: Begun, signal: AbortSignal): Promise<void> {
    try {
      await ready;
    } catch {
      return; // what never started has nothing to stop, and `start` has told why
    }
    try {
      await support.stop({ signal });
    } catch (error) {
      this.#onProblem(`support "${support.name}" did not stop well`, error);
    }
  }
}
