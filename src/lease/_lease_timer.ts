import { DueQueue } from "../_due_queue.ts";
import type { Cancel, Clock } from "../clock.ts";
import { isMailboxError } from "../mailbox/errors.ts";
import { MAX_BATCH } from "../mailbox/mailbox.ts";
import type { ActiveLease } from "./_active_lease.ts";

/** Leases on the same clock share one `LeaseTimer`. */
const timers = new WeakMap<Clock, LeaseTimer>();

/** After a failure the next attempt follows after this share of the interval. */
const RETRY_SHARE = 0.25;

/** Extends leases when they are due, with one timer per process and one call per mailbox. */
export class LeaseTimer {
  readonly #clock: Clock;
  readonly #due = new DueQueue<ActiveLease>();
  #users = 0;
  #cancelTimer: Cancel | undefined;
  #timerAt = Infinity;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Returns the timer of this clock. */
  static of(clock: Clock): LeaseTimer {
    let timer = timers.get(clock);
    if (timer === undefined) timers.set(clock, timer = new LeaseTimer(clock));
    return timer;
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
    this.#schedule(lease, lease.since + lease.scope.terms.intervalMs);
    if (lease.group !== undefined) lease.slot = lease.group.add(lease.message.receiptHandle);
  }

  /** Leaves the timer armed: leases come and go more often than it fires. */
  remove(lease: ActiveLease): void {
    if (lease.due !== undefined) this.#due.remove(lease);
    lease.group?.remove(lease.slot);
    lease.slot = -1;
    if (this.#users === 0) this.#disarm();
  }

  #schedule(lease: ActiveLease, at: number): void {
    this.#due.add(lease, at);
    if (at < this.#timerAt) this.#arm(at);
  }

  /** Sets the timer to `at`; to none for `Infinity`. */
  #arm(at: number): void {
    this.#cancelTimer?.();
    this.#timerAt = at;
    this.#cancelTimer = at === Infinity
      ? undefined
      : this.#clock.schedule(at - this.#clock.monotonic(), () => this.#fire());
  }

  #disarm(): void {
    if (this.#due.size === 0) this.#arm(Infinity);
  }

  #fire(): void {
    const now = this.#clock.monotonic();
    const due: ActiveLease[] = [];
    for (let [lease] = this.#due.first(); lease; [lease] = this.#due.first()) {
      if (this.#due.firstAt - slackMs(lease) > now) break;
      this.#due.remove(lease);
      due.push(lease);
    }
    this.#arm(this.#due.firstAt);
    if (due.length > 0) this.#extendDue(due, now);
  }

  /** Groups the leases by mailbox and length, and extends each group in one call. */
  #extendDue(due: readonly ActiveLease[], now: number): void {
    const batches = new Map<unknown, Map<number, ActiveLease[]>>();
    for (const lease of due) {
      if (!this.#mayExtend(lease, now)) continue;
      const { mailbox, terms: { extensionMs } } = lease.scope;
      const key = mailbox?.extendMany === undefined ? lease.message : mailbox;
      const byLength = batches.get(key) ?? new Map<number, ActiveLease[]>();
      const batch = byLength.get(extensionMs) ?? [];
      batch.push(lease);
      batches.set(key, byLength.set(extensionMs, batch));
    }
    for (const batch of [...batches.values()].flatMap((byLength) => [...byLength.values()])) {
      for (let i = 0; i < batch.length; i += MAX_BATCH) this.#extend(batch.slice(i, i + MAX_BATCH));
    }
  }

  #mayExtend(lease: ActiveLease, now: number): boolean {
    const { scope: { terms, counters, log }, message } = lease;
    if (lease.settled) {
      this.#onSettled(lease, now);
      return false;
    }
    if (lease.waits) lease.group?.beat(lease.slot); // the thread must not withhold it either
    if (lease.waits || now - lease.lastBeat <= terms.beatWithinMs) return true;
    counters.withheld++;
    log.warn("lease not extended: the handler sent no heartbeat", { id: message.id });
    this.#schedule(lease, now + terms.intervalMs);
    return false;
  }

  #extend(batch: readonly ActiveLease[]): void {
    const startedAt = this.#clock.monotonic();
    const extending = this.#call(batch).then((results) => {
      const now = this.#clock.monotonic();
      for (const [i, lease] of batch.entries()) {
        lease.extending = undefined;
        if (results[i] === true) lease.extendedAt(startedAt);
        this.#onResult(lease, results[i], now);
      }
    });
    for (const lease of batch) {
      lease.extending = extending;
      lease.scope.counters.attempts++;
    }
  }

  /** Returns for each lease true (extended), false (expired) or an error (try again). */
  async #call(batch: readonly ActiveLease[]): Promise<readonly unknown[]> {
    const [{ message, scope: { mailbox, terms: { extensionMs } } }] = batch as [ActiveLease];
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
    const { terms: { intervalMs }, counters, log } = lease.scope;
    const { id } = lease.message;
    // The handler settled the message during the call: an expired receipt handle is no loss.
    if (lease.settled) return this.#onSettled(lease, now);
    if (result === true) {
      lease.group?.extended(lease.slot);
      return this.#schedule(lease, now + intervalMs);
    }
    if (result === false) {
      counters.losses++;
      log.warn("lease lost", { id });
      this.remove(lease);
      return lease.lose();
    }
    counters.failures++;
    log.warn("lease could not be extended; trying again", { id, error: result });
    this.#schedule(lease, now + intervalMs * RETRY_SHARE);
  }

  /** The handler settles the message itself. If that fails, the lease is extended again. */
  #onSettled(lease: ActiveLease, now: number): void {
    if (lease.message.finalized) lease.stop();
    else this.#schedule(lease, now + lease.scope.terms.intervalMs * RETRY_SHARE);
  }
}

/** Leases that are due this close together are extended in one call. */
function slackMs({ scope: { terms } }: ActiveLease): number {
  return Math.min(1_000, terms.intervalMs / 10);
}
