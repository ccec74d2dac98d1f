import { Heap, type HeapItem } from "../_heap.ts";
import type { Cancel, Clock } from "../clock.ts";
import { LeaseLostError } from "../errors.ts";
import type { Log } from "../log.ts";
import { isMailboxError } from "../mailbox/errors.ts";
import { type Mailbox, MAX_BATCH, type Message } from "../mailbox/mailbox.ts";
import type { LeaseGroup, LeaseTerms } from "./_lease_thread.ts";

/** What leases on the same terms share. */
export interface LeaseScope {
  readonly mailbox: Mailbox<unknown> | undefined;
  readonly visibilityTimeoutMs: number | undefined;
  readonly terms: LeaseTerms;
  /** What `LeaseExtender.counters` returns. */
  readonly counters: { attempts: number; failures: number; losses: number; withheld: number };
  readonly log: Log;
  readonly clock: Clock;
  readonly timer: LeaseTimer;
  readonly onLost: ((message: Message<unknown>, error: LeaseLostError) => void) | undefined;
}

/** Messages of our own engines carry this mark; a set of all leased messages would cost too much. */
interface Leasable {
  leased: boolean;
}

/**
 * A {@linkcode Lease} and the state that the timer and the thread need to extend it.
 *
 * ```text
 * active ── extended, repeatedly ──▶ active ── stop() ──▶ ended
 *   └── the receipt handle expired ──▶ lost
 * ```
 */
export class ActiveLease implements HeapItem {
  place = -1;
  /** When the next extension is due, by the monotonic clock. */
  at = 0;
  /** Its slot in the table of the lease thread; -1 when it has none. */
  slot = -1;
  /** The running extension. */
  extending: Promise<void> | undefined;
  lastBeat: number;
  /** When the lease ends unless it is extended again; `Infinity` where that is not known. */
  endsAt: number;
  readonly message: Message<unknown>;
  readonly scope: LeaseScope;
  /** Set where another thread extends it, too. */
  readonly group: LeaseGroup | undefined;
  /** True until the first heartbeat of a message that waits for its handler. */
  waits = false;
  #ended = false;
  #lost: LeaseLostError | undefined;
  #abort: AbortController | undefined;
  #marked = false;

  constructor(message: Message<unknown>, scope: LeaseScope, group: LeaseGroup | undefined) {
    this.message = message;
    this.scope = scope;
    this.group = group;
    this.lastBeat = scope.clock.monotonic();
    this.endsAt = this.lastBeat + (scope.visibilityTimeoutMs ?? Infinity);
  }

  get active(): boolean {
    return !this.#ended && !this.lost;
  }

  get lost(): boolean {
    return this.#lost !== undefined;
  }

  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.lost) this.#abort.abort(this.#lost);
    return this.#abort.signal;
  }

  /** True when the handler has settled the message, or is settling it. */
  get settled(): boolean {
    return this.message.finalized || this.message.settling !== undefined;
  }

  beat(now: number = this.scope.clock.monotonic()): void {
    this.waits = false;
    this.lastBeat = now;
    this.group?.beat(this.slot);
  }

  expired(now: number = this.scope.clock.monotonic()): boolean {
    // Only the other thread knows when it has extended the lease.
    return this.group === undefined && now > this.endsAt;
  }

  /** Marks the message as leased. A second lease would extend it after it is settled. */
  begin(): void {
    const { message } = this;
    if (!isLeasable(message)) return;
    if (message.leased) {
      throw new Error(
        `Cannot extend the lease on message ${message.id}: it is extended already. A MailboxLoop ` +
          "extends the messages of its handlers by itself",
      );
    }
    message.leased = this.#marked = true;
  }

  /** Called when the engine refuses the receipt handle. */
  lose(): void {
    if (!this.active) return;
    const { message, scope: { onLost } } = this;
    this.#lost = new LeaseLostError(
      `The lease on message ${message.id} was lost: its visibility timeout passed before it could be ` +
        "extended. Another worker may be handling the message now",
    );
    this.#abort?.abort(this.#lost);
    onLost?.(message, this.#lost);
  }

  stop(): Promise<void> | undefined {
    this.#ended = true;
    this.scope.timer.remove(this);
    if (this.#marked && isLeasable(this.message)) this.message.leased = this.#marked = false;
    return this.extending;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

function isLeasable(message: object): message is Leasable {
  return typeof (message as Partial<Leasable>).leased === "boolean";
}

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
    this.#schedule(lease, lease.lastBeat + lease.scope.terms.intervalMs);
    if (lease.group !== undefined) lease.slot = lease.group.add(lease.message.receiptHandle);
  }

  /** Leaves the timer armed: leases come and go more often than it fires. */
  remove(lease: ActiveLease): void {
    if (lease.place >= 0) this.#heap.remove(lease);
    lease.group?.remove(lease.slot);
    lease.slot = -1;
    if (this.#users === 0) this.#disarm();
  }

  #schedule(lease: ActiveLease, at: number): void {
    lease.at = at;
    this.#heap.push(lease);
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
    if (this.#heap.size === 0) this.#arm(Infinity);
  }

  #fire(): void {
    const now = this.#clock.monotonic();
    const due: ActiveLease[] = [];
    for (let lease = this.#heap.peek(); lease && lease.at - slackMs(lease) <= now;) {
      due.push(this.#heap.pop()!);
      lease = this.#heap.peek();
    }
    this.#arm(this.#heap.peek()?.at ?? Infinity);
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
        const endsAt = startedAt + lease.scope.terms.extensionMs;
        if (results[i] === true) lease.endsAt = Math.max(lease.endsAt, endsAt);
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
