import type { DueGroup, DueItem } from "../_due_queue.ts";
import type { Clock } from "../clock.ts";
import { leaseLost, type LeaseLostError } from "../errors.ts";
import type { Log } from "../log.ts";
import type { Mailbox, Message } from "../mailbox/mailbox.ts";
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
  readonly timer: {
    add(lease: ActiveLease): void;
    remove(lease: ActiveLease): void;
    retain(): () => void;
  };
  readonly onLost: ((message: Message<unknown>, error: LeaseLostError) => void) | undefined;
}

/** Messages of our own engines carry a mark; a set of all leased messages would cost too much. */
interface Leasable {
  leased: boolean;
  /** How long it has been leased already, in milliseconds. */
  readonly openingMs: number;
}

/**
 * A {@linkcode Lease} and the state that the timer and the thread need to extend it.
 *
 * ```text
 * active ── extended, repeatedly ──▶ active ── stop() ──▶ ended
 *   └── the receipt handle expired ──▶ lost
 * ```
 */
export class ActiveLease implements DueItem {
  place = -1;
  /** Set while an extension is due later, by the monotonic clock. */
  due: DueGroup<this> | undefined;
  /** Its slot in the table of the lease thread; -1 when it has none. */
  slot = -1;
  /** The running extension. */
  extending: Promise<void> | undefined;
  lastBeat: number;
  /** When it began. */
  readonly since: number;
  readonly message: Message<unknown>;
  readonly scope: LeaseScope;
  /** Set where another thread extends it, too. */
  readonly group: LeaseGroup | undefined;
  /** True until the first heartbeat of a message that waits for its handler. */
  waits = false;
  /** When the lease ends unless it is extended; `Infinity` where only the other thread knows. */
  #endsAt: number;
  #ended = false;
  #lost: LeaseLostError | undefined;
  #abort: AbortController | undefined;
  #marked = false;

  constructor(
    message: Message<unknown>,
    scope: LeaseScope,
    group: LeaseGroup | undefined,
    now: number,
  ) {
    this.message = message;
    this.scope = scope;
    this.group = group;
    this.lastBeat = now;
    this.since = this.lastBeat - (isLeasable(message) ? message.openingMs : 0);
    const lastsMs = scope.visibilityTimeoutMs ?? Infinity;
    this.#endsAt = group === undefined ? this.since + lastsMs : Infinity;
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
    return now > this.#endsAt;
  }

  extendedAt(at: number): void {
    this.#endsAt = Math.max(this.#endsAt, at + this.scope.terms.extensionMs);
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
    this.#lost = leaseLost(message.id);
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
