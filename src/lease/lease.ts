import type { HeapItem } from "../_heap.ts";
import type { Clock } from "../clock.ts";
import { LeaseLostError } from "../errors.ts";
import type { Log } from "../log.ts";
import type { Mailbox, Message } from "../mailbox/mailbox.ts";

/** Counts the extensions of leases. */
export interface LeaseCounters {
  /** Extensions requested. */
  readonly attempts: number;
  /** Extensions that failed and were tried again; the handler went on. */
  readonly failures: number;
  /** Leases that expired while a handler worked on the message. */
  readonly losses: number;
  /** Extensions skipped because the handler sent no heartbeat. */
  readonly withheld: number;
}

/** Keeps one message invisible to other workers while a handler works on it. */
export interface Lease extends AsyncDisposable {
  /** The leased message. */
  readonly message: Message<unknown>;
  /** True until the lease is lost or stopped. */
  readonly active: boolean;
  /** True when the lease expired and the message returned to its mailbox. */
  readonly lost: boolean;
  /** Aborts with a {@linkcode LeaseLostError} when the lease is lost. */
  readonly signal: AbortSignal;
  /** When the handler last sent a heartbeat, by the monotonic clock. */
  readonly lastBeat: number;
  /** Cancelled when the lease is lost. */
  worker: { cancel(error: LeaseLostError): void } | undefined;
  /** Sends a heartbeat. With `beatWithinMs` a lease without heartbeats is not extended. */
  beat(): void;
  /** Ends the extension, and waits for a running one. The message can be settled afterwards. */
  stop(): Promise<void> | undefined;
}

/** How often and for how long a lease is extended. */
export interface LeaseTerms {
  readonly intervalMs: number;
  readonly extensionMs: number;
  /** Without a heartbeat for this long the lease is not extended. */
  readonly beatWithinMs: number;
}

/** What a lease needs from its `LeaseExtender`. */
export interface LeaseOwner {
  readonly counters: { -readonly [K in keyof LeaseCounters]: number };
  readonly log: Log;
  readonly remove: (lease: ActiveLease) => void;
}

/** Shows leases to the lease thread. */
export interface LeaseMirror {
  add(lease: ActiveLease): void;
  extended(lease: ActiveLease): void;
  beat(lease: ActiveLease): void;
  remove(lease: ActiveLease): void;
}

/** Messages of our own engines carry this mark; a set of all leased messages would cost too much. */
interface Leasable {
  leased: boolean;
}

/**
 * A lease and the state that the timer and the thread need to extend it.
 *
 * ```text
 * active ── extended, repeatedly ──▶ active ── stop() ──▶ ended
 *   └── the receipt handle expired ──▶ lost
 * ```
 */
export class ActiveLease implements Lease, HeapItem {
  place = -1;
  /** When the next extension is due, by the monotonic clock. */
  at = 0;
  /** Leases that are due this close together are extended in one call. */
  readonly slackMs: number;
  readonly message: Message<unknown>;
  readonly mailbox: Mailbox<unknown> | undefined;
  readonly terms: LeaseTerms;
  readonly owner: LeaseOwner;
  readonly mirror: LeaseMirror | undefined;
  /** Its slot in the table of the lease thread; -1 when it has none. */
  slot = -1;
  /** The running extension. */
  extending: Promise<void> | undefined;
  lastBeat: number;
  worker: { cancel(error: LeaseLostError): void } | undefined;
  readonly #clock: Clock;
  #state: "active" | "lost" | "ended" = "active";
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

  get active(): boolean {
    return this.#state === "active";
  }

  get lost(): boolean {
    return this.#state === "lost";
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      if (this.lost) this.#abort.abort(this.#lostError());
    }
    return this.#abort.signal;
  }

  beat(): void {
    this.lastBeat = this.#clock.monotonic();
    this.mirror?.beat(this);
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

  /** True when the handler has settled the message, or is settling it. */
  get settled(): boolean {
    return this.message.finalized || this.message.settling !== undefined;
  }

  /** Called when the engine refuses the receipt handle. */
  lose(): void {
    if (this.#state !== "active") return;
    this.#state = "lost";
    const error = this.#lostError();
    this.#abort?.abort(error);
    this.worker?.cancel(error);
  }

  stop(): Promise<void> | undefined {
    if (this.#state === "active") this.#state = "ended";
    this.owner.remove(this);
    if (this.#marked && isLeasable(this.message)) this.message.leased = this.#marked = false;
    return this.extending;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  #lostError(): LeaseLostError {
    return new LeaseLostError(
      `The lease on message ${this.message.id} was lost: its visibility timeout passed before it ` +
        "could be extended. Another worker may be handling the message now",
    );
  }
}

function isLeasable(message: object): message is Leasable {
  return typeof (message as Partial<Leasable>).leased === "boolean";
}
