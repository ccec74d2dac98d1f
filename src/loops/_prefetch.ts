import type { Cancel, Clock } from "../clock.ts";
import type { RunOptions } from "../lifecycle/runnable.ts";
import type { RunConfig } from "./_run_config.ts";

/** The handler time of all messages that a run holds. */
const AHEAD_MS = 20;
/** How long a message waits for a handler before it is released for other workers. */
const MAX_WAIT_MS = 100;
/** The most messages that are received ahead. */
const MAX_AHEAD = 500;
/** The number of handled messages that are measured. Older ones count less. */
const WINDOW = 1_000;

/**
 * Decides how many messages a run receives ahead of its free slots.
 *
 * With `auto`, a run holds as many messages, running and waiting, as its handlers complete in 20 ms. It measures the
 * time per message across all slots while at least one handler runs, which is right for handlers that wait and for
 * handlers that compute. A run starts with none ahead and never receives more ahead than it has handled.
 *
 * A handler may be slower than the previous ones. If no handler ends for 20 ms, the run stops receiving ahead. It
 * releases messages that have waited 100 ms, so that idle workers elsewhere can handle them.
 */
export class Prefetch {
  readonly #fixed: number | undefined;
  readonly #concurrency: number;
  readonly #clock: Clock;
  #running = 0;
  #handled = 0;
  #busyMs = 0;
  /** When `#busyMs` was last updated. */
  #measuredAt = 0;
  #cancelTimer: Cancel | undefined;

  /** Returns the prefetch of a run. */
  static of<T, R>(config: RunConfig<T, R>, options: RunOptions): Prefetch {
    const { prefetch, concurrency, clock, mailbox } = config;
    // A counted receive takes as many messages as there are free slots. An engine that cannot restore attempts would
    // count one for each unstarted message that is released.
    const isOff = options.maxIterations !== undefined || !mailbox.capabilities.restoresAttempts;
    return new Prefetch(prefetch === "auto" && isOff ? 0 : prefetch, concurrency, clock);
  }

  constructor(setting: number | "auto", concurrency: number, clock: Clock) {
    this.#fixed = setting === "auto" ? undefined : setting;
    this.#concurrency = concurrency;
    this.#clock = clock;
  }

  /** Records the start of a handler. */
  started(now: number): void {
    if (this.#running++ === 0) this.#measuredAt = now;
  }

  /** Records the end of a handler. */
  ended(now: number): void {
    this.#running--;
    this.#busyMs += now - this.#measuredAt;
    this.#measuredAt = now;
    if (++this.#handled < WINDOW) return;
    this.#handled /= 2;
    this.#busyMs /= 2;
  }

  /** How many messages may wait for a handler. Pass the time of the monotonic clock if it has just been read. */
  size(now: number = this.#clock.monotonic()): number {
    if (this.#fixed !== undefined) return this.#fixed;
    if (this.#handled === 0) return 0;
    if (this.#running > 0 && now - this.#measuredAt > AHEAD_MS) return 0;
    const held = Math.floor(AHEAD_MS * this.#handled / this.#busyMs); // `Infinity` for handlers that take no time
    return Math.max(0, Math.min(held - this.#concurrency, this.#handled, MAX_AHEAD));
  }

  /** Returns how many messages may be received while `waiting` messages wait. */
  slots(waiting: number, now?: number): number {
    const size = this.size(now);
    // Receive ahead in batches, not one message for each handler that ends.
    return waiting > size / 2 ? 0 : this.#concurrency + size - this.#running - waiting;
  }

  /**
   * Calls `release` when the first waiting message has waited too long. `firstSince` returns when its wait began, or
   * undefined if none waits.
   */
  watch(firstSince: () => number | undefined, release: () => void): void {
    if (this.#fixed !== undefined || this.#cancelTimer !== undefined) return;
    const since = firstSince();
    if (since === undefined) return;
    const leftMs = Math.max(0, since + MAX_WAIT_MS - this.#clock.monotonic());
    this.#cancelTimer = this.#clock.schedule(leftMs, () => {
      this.#cancelTimer = undefined;
      const first = firstSince();
      // A timer may fire up to a millisecond early.
      if (first !== undefined && this.#clock.monotonic() - first > MAX_WAIT_MS - 1) release();
      this.watch(firstSince, release);
    });
  }

  /** Cancels the timer. */
  end(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
  }
}
