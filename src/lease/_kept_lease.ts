import type { HeapItem } from "../_heap.ts";
import type { Clock } from "../clock.ts";
import { LeaseLostError } from "../errors.ts";
import type { Log } from "../log.ts";
import type { Mailbox, Message } from "../mailbox/mailbox.ts";
import type { Lease, LeaseCounters } from "./lease.ts";

/** How one lease is kept; complete. */
export interface LeaseTerms {
  readonly intervalMs: number;
  readonly extensionMs: number;
  /** Without a beat for this long the lease is not extended. */
  readonly beatWithinMs: number;
}

/** Leases that are extended more often than this leave no time to prepare when they are overdue. */
export const SHORT_INTERVAL_MS = 10_000;

/** What a lease needs from whoever keeps it. */
export interface LeaseOwner {
  readonly counters: { -readonly [K in keyof LeaseCounters]: number };
  readonly log: Log;
  readonly release: (lease: KeptLease) => void;
}

/** Messages of our own mailboxes carry the mark: a set of all leased messages would cost too much. */
interface Leasable {
  leased: boolean;
}

/** Where another thread sees leases too. */
export interface LeaseMirror {
  put(lease: KeptLease): void;
  /** It was extended. */
  renew(lease: KeptLease): void;
  /** The work on it is alive. */
  beat(lease: KeptLease): void;
  remove(lease: KeptLease): void;
}

/**
 * A lease, as those see it who keep it.
 *
 * ```text
 * kept ── extended, again and again ──▶ kept ── stop() ──▶ ended
 *   └── the receipt has expired ──▶ lost
 * ```
 */
export class KeptLease implements Lease, HeapItem {
  place = -1;
  at = 0;
  /** Leases that are due this close to one another are extended in one call. */
  readonly slackMs: number;
  readonly message: Message<unknown>;
  readonly mailbox: Mailbox<unknown> | undefined;
  readonly terms: LeaseTerms;
  readonly owner: LeaseOwner;
  /** Where another thread sees it too, while it is kept. */
  readonly mirror: LeaseMirror | undefined;
  /** Its place there. */
  slot = -1;
  /** The extension that is under way. */
  extending: Promise<void> | undefined;
  lastBeat: number;
  /** Told when the lease is lost. */
  worker: { cancel(error: LeaseLostError): void } | undefined;
  readonly #clock: Clock;
  #state: "kept" | "lost" | "ended" = "kept";
  #abort: AbortController | undefined;
  #marked = false;

  constructor(
    message: Message<unknown>,
    mailbox: Mailbox<unknown> | undefined,
    terms: LeaseTerms,
    owner: LeaseOwner,
    clock: Clock,
    mirror?: LeaseMirror,
  ) {
    this.message = message;
    this.mailbox = mailbox;
    this.terms = terms;
    this.owner = owner;
    this.mirror = mirror;
    this.slackMs = Math.min(1_000, terms.intervalMs / 10);
    this.#clock = clock;
    this.lastBeat = clock.monotonic();
  }

  /** True until it is lost or ended. */
  get kept(): boolean {
    return this.#state === "kept";
  }

  /** True when the message went back to its mailbox meanwhile. */
  get lost(): boolean {
    return this.#state === "lost";
  }

  /** Aborted with a {@linkcode LeaseLostError} when the lease is lost. */
  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      if (this.lost) this.#abort.abort(this.#lostError());
    }
    return this.#abort.signal;
  }

  /** Says that the work is alive, where extension depends on it. */
  beat(): void {
    this.lastBeat = this.#clock.monotonic();
    this.mirror?.beat(this);
  }

  /** Begins to keep the message. Two leases on one delivery would extend it past its settlement. */
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

  /** True when its message was settled, or is being settled, while it is kept. */
  get settled(): boolean {
    return this.message.finalized || this.message.settling !== undefined;
  }

  /** The receipt is not good any more. */
  lose(): void {
    if (this.#state !== "kept") return;
    this.#state = "lost";
    const error = this.#lostError();
    this.#abort?.abort(error);
    this.worker?.cancel(error);
  }

  /** Ends the extension, and waits for one that is under way: after this the message can be settled. */
  stop(): Promise<void> | undefined {
    if (this.#state === "kept") this.#state = "ended";
    this.owner.release(this);
    if (this.#marked && isLeasable(this.message)) this.message.leased = this.#marked = false;
    return this.extending;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  #lostError(): LeaseLostError {
    return new LeaseLostError(
      `The lease on message ${this.message.id} was lost: its visibility timeout passed before it ` +
        "could be extended, and somebody else may be working on it now",
    );
  }
}

function isLeasable(message: object): message is Leasable {
  return typeof (message as Partial<Leasable>).leased === "boolean";
}
