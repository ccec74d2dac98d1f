import { Heap } from "../_heap.ts";
import type { Cancel, Clock } from "../clock.ts";
import { isMailboxError } from "../mailbox/errors.ts";
import { MAX_BATCH } from "../mailbox/mailbox.ts";
import type { ActiveLease } from "./lease.ts";

/** Leases on the same clock share one `LeaseTimer`. */
const timers = new WeakMap<Clock, LeaseTimer>();

/** After a failure the next attempt follows after this share of the interval. */
const RETRY_SHARE = 0.25;

/** Extends leases when they are due, with one timer per process and one call per mailbox. */
export class LeaseTimer {
  readonly #clock: Clock;
  readonly #heap = new Heap<ActiveLease>((a, b) => a.at < b.at);
  #users = 0;
  #cancelTimer: Cancel | undefined;
  #timerAt = Infinity;

  static of(clock: Clock): LeaseTimer {
    const timer = timers.get(clock) ?? new LeaseTimer(clock);
    timers.set(clock, timer);
    return timer;
  }

  private constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Lets the timer run while no lease is active, until the returned function is called. */
  retain(): () => void {
    this.#users++;
    return () => {
      if (--this.#users === 0) this.#disarm();
    };
  }

  add(lease: ActiveLease): void {
    lease.begin();
    this.#schedule(lease, lease.lastBeat + lease.terms.intervalMs);
    lease.mirror?.add(lease);
  }

  /** Leaves the timer armed: leases come and go more often than it fires. */
  remove(lease: ActiveLease): void {
    if (lease.place >= 0) this.#heap.remove(lease);
    lease.mirror?.remove(lease);
    if (this.#users === 0) this.#disarm();
  }

  #schedule(lease: ActiveLease, at: number): void {
    lease.at = at;
    this.#heap.push(lease);
    if (at < this.#timerAt) this.#arm(at);
  }

  #arm(at: number): void {
    this.#cancelTimer?.();
    this.#timerAt = at;
    this.#cancelTimer = this.#clock.schedule(at - this.#clock.monotonic(), () => this.#fire());
  }

  #disarm(): void {
    if (this.#heap.size > 0) return;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#timerAt = Infinity;
  }

  #fire(): void {
    this.#cancelTimer = undefined;
    this.#timerAt = Infinity;
    const now = this.#clock.monotonic();
    const due: ActiveLease[] = [];
    for (let lease = this.#heap.peek(); lease && lease.at - lease.slackMs <= now;) {
      due.push(this.#heap.pop()!);
      lease = this.#heap.peek();
    }
    const next = this.#heap.peek();
    if (next !== undefined) this.#arm(next.at);
    if (due.length > 0) this.#extendDue(due, now);
  }

  /** Groups the leases by mailbox and length, and extends each group in one call. */
  #extendDue(due: readonly ActiveLease[], now: number): void {
    const batches = new Map<unknown, Map<number, ActiveLease[]>>();
    for (const lease of due) {
      if (lease.settled) {
        this.#onSettled(lease, now);
        continue;
      }
      if (now - lease.lastBeat > lease.terms.beatWithinMs) {
        this.#withhold(lease, now);
        continue;
      }
      const { mailbox, message, terms: { extensionMs } } = lease;
      const key = mailbox?.extendMany === undefined ? message : mailbox;
      const byLength = batches.get(key) ?? new Map<number, ActiveLease[]>();
      const batch = byLength.get(extensionMs) ?? [];
      batch.push(lease);
      batches.set(key, byLength.set(extensionMs, batch));
    }
    for (const byLength of batches.values()) {
      for (const [extensionMs, batch] of byLength) {
        for (let i = 0; i < batch.length; i += MAX_BATCH) {
          this.#extend(batch.slice(i, i + MAX_BATCH), extensionMs);
        }
      }
    }
  }

  #extend(batch: readonly ActiveLease[], extensionMs: number): void {
    const extending = this.#call(batch, extensionMs).then((results) => {
      const now = this.#clock.monotonic();
      for (const [i, lease] of batch.entries()) {
        lease.extending = undefined;
        this.#onResult(lease, results[i], now);
      }
    });
    for (const lease of batch) {
      lease.extending = extending;
      lease.owner.counters.attempts++;
    }
  }

  /** Returns for each lease true (extended), false (expired) or an error (try again). */
  async #call(batch: readonly ActiveLease[], extensionMs: number): Promise<readonly unknown[]> {
    const [{ mailbox, message }] = batch as [ActiveLease];
    try {
      if (mailbox?.extendMany !== undefined) {
        return await mailbox.extendMany(batch.map((lease) => lease.message), extensionMs);
      }
      await message.extendVisibility(extensionMs);
      return [true];
    } catch (error) {
      if (isMailboxError(error, "ReceiptHandleExpiredError")) return [false];
      return batch.map(() => error);
    }
  }

  #onResult(lease: ActiveLease, result: unknown, now: number): void {
    if (!lease.active) return;
    const { intervalMs } = lease.terms;
    // The handler settled the message during the call: an expired receipt handle is no loss.
    if (lease.settled) return this.#onSettled(lease, now);
    if (result === true) {
      lease.mirror?.extended(lease);
      return this.#schedule(lease, now + intervalMs);
    }
    if (result === false) {
      lease.owner.counters.losses++;
      lease.owner.log.warn(`the lease on message ${lease.message.id} was lost`);
      lease.mirror?.remove(lease);
      return lease.lose();
    }
    lease.owner.counters.failures++;
    const id = lease.message.id;
    lease.owner.log.warn(`the lease on message ${id} could not be extended; trying again`, {
      error: result,
    });
    this.#schedule(lease, now + intervalMs * RETRY_SHARE);
  }

  /** The handler settles the message itself. If that fails, the lease is extended again. */
  #onSettled(lease: ActiveLease, now: number): void {
    if (lease.message.finalized) lease.stop();
    else this.#schedule(lease, now + lease.terms.intervalMs * RETRY_SHARE);
  }

  #withhold(lease: ActiveLease, now: number): void {
    lease.owner.counters.withheld++;
    lease.owner.log.warn(
      `the lease on message ${lease.message.id} is not extended: its handler sent no heartbeat`,
    );
    this.#schedule(lease, now + lease.terms.intervalMs);
  }
}
