import type { Clock } from "../clock.ts";
import { isMailboxError } from "../mailbox/errors.ts";
import { MAX_BATCH } from "../mailbox/mailbox.ts";
import type { KeptLease } from "./_kept_lease.ts";
import { LeaseScheduler } from "./_lease_scheduler.ts";

/** One keeper serves all leases that live by the same clock, so that a process has one timer for them. */
const keepers = new WeakMap<Clock, LeaseKeeper>();

/** After a failure the next attempt comes this much sooner. */
const RETRY_SHARE = 0.25;

/** Extends leases when they are due: those of one mailbox and one length in one call. */
export class LeaseKeeper {
  readonly #clock: Clock;
  readonly #scheduler: LeaseScheduler<KeptLease>;
  #holders = 0;

  /** The keeper of this clock. */
  static of(clock: Clock): LeaseKeeper {
    const keeper = keepers.get(clock) ?? new LeaseKeeper(clock);
    keepers.set(clock, keeper);
    return keeper;
  }

  private constructor(clock: Clock) {
    this.#clock = clock;
    this.#scheduler = new LeaseScheduler(clock, (due) => this.#onDue(due));
  }

  /** How many leases are kept. */
  get size(): number {
    return this.#scheduler.size;
  }

  /** As long as somebody holds it, its timer may wait for leases to come. */
  hold(): () => void {
    this.#holders++;
    return () => {
      if (--this.#holders === 0) this.#scheduler.rest();
    };
  }

  keep(lease: KeptLease): void {
    lease.begin();
    this.#scheduler.add(lease, lease.lastBeat + lease.terms.intervalMs);
    lease.mirror?.put(lease);
  }

  release(lease: KeptLease): void {
    this.#scheduler.remove(lease);
    lease.mirror?.remove(lease);
    if (this.#holders === 0) this.#scheduler.rest();
  }

  #onDue(due: readonly KeptLease[]): void {
    const now = this.#clock.monotonic();
    const batches = new Map<unknown, Map<number, KeptLease[]>>();
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
      const byLength = batches.get(key) ?? new Map<number, KeptLease[]>();
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

  #extend(batch: readonly KeptLease[], extensionMs: number): void {
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

  /** True: extended; false: the receipt is stale; an error: it may work the next time. */
  async #call(batch: readonly KeptLease[], extensionMs: number): Promise<readonly unknown[]> {
    const [{ mailbox, message }] = batch as [KeptLease];
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

  #onResult(lease: KeptLease, result: unknown, now: number): void {
    if (!lease.kept) return;
    const { intervalMs } = lease.terms;
    // A receipt that is gone because its handler settled the message is no loss.
    if (lease.settled) return this.#onSettled(lease, now);
    if (result === true) {
      lease.mirror?.renew(lease);
      return this.#scheduler.add(lease, now + intervalMs);
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
    this.#scheduler.add(lease, now + intervalMs * RETRY_SHARE);
  }

  /** The handler settles the message itself; should that fail, the lease goes on. */
  #onSettled(lease: KeptLease, now: number): void {
    if (lease.message.finalized) lease.stop();
    else this.#scheduler.add(lease, now + lease.terms.intervalMs * RETRY_SHARE);
  }

  #withhold(lease: KeptLease, now: number): void {
    lease.owner.counters.withheld++;
    lease.owner.log.warn(
      `the lease on message ${lease.message.id} is not extended: the work gives no sign of life`,
    );
    this.#scheduler.add(lease, now + lease.terms.intervalMs);
  }
}
