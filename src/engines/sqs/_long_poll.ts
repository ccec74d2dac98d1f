import { settlesWithin } from "../../_promises.ts";
import { type Cancel, type Clock, nextTurn } from "../../clock.ts";
import type { Log } from "../../log.ts";
import type { SqsDelivery } from "./_delivery.ts";

/** For how long a delivery is kept ready for whoever looks next, when nobody waits any more. */
const GRACE_MS = 500;

/** After a failure: a service that fails at once must not be asked all the time. */
const PAUSE_MS = 1_000;

/** What comes with less than this left of its lease is not handed over. */
const TOO_LATE_MS = 1_000;

/** An answer that is on its way is here by then. */
const LATE_MS = 50;

/** What a {@linkcode LongPoll} asks, and whom. */
export interface LongPollPort {
  readonly clock: Clock;
  readonly log: Log;
  /** Resolves when there is a message, or after some seconds with none. */
  ask(signal: AbortSignal): Promise<SqsDelivery[]>;
  giveBack(deliveries: readonly SqsDelivery[]): Promise<unknown>;
}

/**
 * The one long poll of a queue, which is how SQS tells that there are messages.
 *
 * `idle ─▶ asking ─▶ holding ─▶ idle`: it asks while somebody listens, one request at a time. What comes
 * is held, whoever listens is woken and takes it, and it asks on. A poll is not given up when the last
 * listener leaves, because the service may not notice and hand a message to nobody: it runs out, is
 * adopted by the next listener, and what it brings meanwhile is given back. Only a close gives it up.
 */
export class LongPoll {
  readonly #port: LongPollPort;
  readonly #listeners = new Set<() => void>();
  readonly #closing = new AbortController();
  #held: SqsDelivery[] = [];
  #asking: Promise<void> | undefined;
  #starting = false;
  #cancelPause: Cancel | undefined;
  #cancelGiveBack: Cancel | undefined;

  constructor(port: LongPollPort) {
    this.#port = port;
  }

  /** It tells of every message: nobody else need ask. */
  get watches(): boolean {
    return (this.#asking !== undefined || this.#starting) && this.#listeners.size > 0;
  }

  /** A request is under way that nobody waits for any more; resolves soon after it was answered. */
  async leftover(): Promise<void> {
    if (this.#asking !== undefined) await settlesWithin(this.#asking, LATE_MS, this.#port.clock);
  }

  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    this.#cancelGiveBack?.();
    this.#starting = true;
    this.#askOn();
    return () => {
      if (!this.#listeners.delete(listener) || this.#listeners.size > 0) return;
      this.#endPause();
      this.#giveBackSoon();
    };
  }

  /** Takes what is held, `max` at the most. */
  take(max: number): SqsDelivery[] {
    if (this.#held.length === 0) return [];
    const latest = this.#port.clock.monotonic() + TOO_LATE_MS;
    const taken = this.#held.splice(0, max).filter(({ leaseEndsAt }) => leaseEndsAt > latest);
    this.#askOn();
    return taken;
  }

  /** Gives everything back. What the service hands to the request that is given up comes back by itself. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#listeners.clear();
    this.#endPause();
    this.#cancelGiveBack?.();
    await Promise.all([this.#giveBack(), this.#asking]);
  }

  #ask(): void {
    if (this.#closing.signal.aborted || this.#asking !== undefined) return;
    if (this.#cancelPause !== undefined || this.#held.length > 0) return;
    if (this.#listeners.size === 0) return;
    this.#asking = this.#askOnce();
  }

  /** Whoever was woken, or was aborted before, leaves within a turn. */
  async #askOn(): Promise<void> {
    await nextTurn();
    this.#starting = false;
    this.#ask();
  }

  async #askOnce(): Promise<void> {
    let failed = false;
    try {
      this.#held.push(...await this.#port.ask(this.#closing.signal));
    } catch (error) {
      failed = true;
      this.#port.log.debug("could not wait for messages on SQS", { error });
    }
    this.#asking = undefined;
    if (this.#closing.signal.aborted) return await this.#giveBack();
    if (failed) this.#pause();
    if (failed || this.#held.length > 0) { for (const wake of this.#listeners) wake(); }
    this.#giveBackSoon();
    this.#askOn();
  }

  /** Whoever waits looks for themselves, and finds out what is wrong. */
  #pause(): void {
    if (this.#listeners.size === 0) return;
    this.#cancelPause = this.#port.clock.schedule(PAUSE_MS, () => {
      this.#cancelPause = undefined;
      this.#ask();
    });
  }

  #endPause(): void {
    this.#cancelPause?.();
    this.#cancelPause = undefined;
  }

  #giveBackSoon(): void {
    if (this.#held.length === 0 || this.#listeners.size > 0) return;
    this.#cancelGiveBack?.();
    this.#cancelGiveBack = this.#port.clock.schedule(GRACE_MS, () => void this.#giveBack());
  }

  async #giveBack(): Promise<void> {
    const held = this.#held;
    this.#held = [];
    if (held.length === 0) return;
    try {
      await this.#port.giveBack(held);
    } catch (error) {
      this.#port.log.debug("could not give back to SQS; the leases decide", { error });
    }
  }
}
