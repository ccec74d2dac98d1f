import { settlesWithin } from "../../_promises.ts";
import { type Cancel, type Clock, nextTurn } from "../../clock.ts";
import type { Log } from "../../log.ts";
import type { SqsDelivery } from "./_message.ts";

/** How long messages stay buffered after the last listener has left. */
const GRACE_MS = 500;

/** The pause after a failed request. */
const ERROR_PAUSE_MS = 1_000;

/** A buffered message with less time left on its lease is dropped. */
const MIN_LEASE_MS = 1_000;

/** How long a receive waits for an answer that may be on its way. */
const LATE_RESPONSE_MS = 50;

/** Settings and callbacks of a {@linkcode LongPoll}. */
export interface LongPollOptions {
  readonly mailbox: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Resolves with messages, or with none after some seconds. */
  poll(signal: AbortSignal): Promise<SqsDelivery[]>;
  release(deliveries: readonly SqsDelivery[]): Promise<unknown>;
}

/**
 * The long poll of a queue. SQS has no other way to report new messages.
 *
 * `idle ─▶ polling ─▶ buffered ─▶ idle`: while there are listeners, it has one open request. It buffers
 * the messages, wakes the listeners, and polls again when one of them finds none. When the last
 * listener leaves, the open request continues until it expires, because SQS may not notice an abort and
 * deliver a message to it. A new listener uses the open request; otherwise its messages are released.
 * Only a close aborts it.
 */
export class LongPoll {
  readonly #options: LongPollOptions;
  readonly #listeners = new Set<() => void>();
  readonly #closing = new AbortController();
  #buffered: SqsDelivery[] = [];
  #polling: Promise<void> | undefined;
  #starting = false;
  #cancelPause: Cancel | undefined;
  #cancelRelease: Cancel | undefined;

  constructor(options: LongPollOptions) {
    this.#options = options;
  }

  /** True while the long poll reports every message, so that receivers need no requests of their own. */
  get isActive(): boolean {
    return (this.#polling !== undefined || this.#starting) && this.#listeners.size > 0;
  }

  /** Waits briefly for the answer of an open request that has no listener any more. */
  async waitForLeftover(): Promise<void> {
    if (this.#polling !== undefined) {
      await settlesWithin(this.#polling, LATE_RESPONSE_MS, this.#options.clock);
    }
  }

  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    this.#cancelRelease?.();
    this.#starting = true;
    this.#pollNextTurn();
    return () => {
      if (!this.#listeners.delete(listener) || this.#listeners.size > 0) return;
      this.#endPause();
      this.#scheduleRelease();
    };
  }

  /**
   * Returns up to `max` buffered messages. Polls again only if there are none: a receiver that takes messages leaves,
   * and messages that arrive before the next one would be hidden from other workers.
   */
  take(max: number): SqsDelivery[] {
    const latest = this.#options.clock.monotonic() + MIN_LEASE_MS;
    const taken = this.#buffered.splice(0, max).filter(({ leaseEndsAt }) => leaseEndsAt > latest);
    if (taken.length === 0 && !this.#starting) this.#startPoll();
    return taken;
  }

  /**
   * Releases buffered messages and aborts the request. A message that SQS delivers to the aborted request
   * reappears when its visibility timeout passes.
   */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#listeners.clear();
    this.#endPause();
    this.#cancelRelease?.();
    await Promise.all([this.#release(), this.#polling]);
  }

  #startPoll(): void {
    if (this.#closing.signal.aborted || this.#polling !== undefined) return;
    if (this.#cancelPause !== undefined || this.#buffered.length > 0) return;
    if (this.#listeners.size === 0) return;
    this.#polling = this.#pollOnce();
  }

  /** A listener that was woken or aborted takes its messages, or leaves, within a turn. */
  async #pollNextTurn(): Promise<void> {
    await nextTurn();
    this.#starting = false;
    this.#startPoll();
  }

  async #pollOnce(): Promise<void> {
    let failed = false;
    try {
      this.#buffered.push(...await this.#options.poll(this.#closing.signal));
    } catch (error) {
      failed = true;
      const { mailbox, log } = this.#options;
      log.debug("could not wait for messages on SQS", { mailbox, error });
    }
    this.#polling = undefined;
    if (this.#closing.signal.aborted) return await this.#release();
    if (failed) this.#pause();
    if (failed || this.#buffered.length > 0) {
      for (const wake of this.#listeners) wake();
    }
    this.#scheduleRelease();
    if (this.#buffered.length === 0) this.#pollNextTurn();
  }

  /** During the pause, woken receivers make their own request and get the error. */
  #pause(): void {
    if (this.#listeners.size === 0) return;
    this.#cancelPause = this.#options.clock.schedule(ERROR_PAUSE_MS, () => {
      this.#cancelPause = undefined;
      this.#startPoll();
    });
  }

  #endPause(): void {
    this.#cancelPause?.();
    this.#cancelPause = undefined;
  }

  #scheduleRelease(): void {
    if (this.#buffered.length === 0 || this.#listeners.size > 0) return;
    this.#cancelRelease?.();
    this.#cancelRelease = this.#options.clock.schedule(GRACE_MS, () => void this.#release());
  }

  async #release(): Promise<void> {
    const buffered = this.#buffered;
    this.#buffered = [];
    if (buffered.length === 0) return;
    try {
      await this.#options.release(buffered);
    } catch (error) {
      const { mailbox, log } = this.#options;
      log.debug(
        "could not release to SQS; the messages reappear when their visibility timeout passes",
        { mailbox, error },
      );
    }
  }
}
