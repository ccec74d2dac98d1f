import { checkInterval, MAX_VISIBILITY_MS } from "../_checks.ts";
import { type Clock, systemClock } from "../clock.ts";
import { safeLog } from "../library_log.ts";
import type { Log } from "../log.ts";
import type { Mailbox, Message } from "../mailbox/mailbox.ts";
import {
  ActiveLease,
  type Lease,
  type LeaseCounters,
  type LeaseOwner,
  type LeaseTerms,
} from "./lease.ts";
import { type LeaseGroup, LeaseThread } from "./_lease_thread.ts";
import { LeaseTimer } from "./_lease_timer.ts";

/** When and for how long leases are extended. Each option can be overridden for one message. */
export interface LeaseOptions {
  /** Time between two extensions. @default {60_000} */
  readonly intervalMs?: number;
  /** How long the lease lasts from each extension on. @default {the visibility timeout, 300_000 if unknown} */
  readonly extensionMs?: number;
  /**
   * False extends no lease: a message returns to its mailbox when its visibility timeout passes.
   *
   * @default {true}
   */
  readonly enabled?: boolean;
  /** Extend at least every 40 % of the visibility timeout, where that is known. @default {true} */
  readonly adaptive?: boolean;
  /**
   * Extend only while the handler sends a heartbeat at least this often, so that the message of a stuck
   * handler returns to its mailbox. @default {Infinity}
   */
  readonly beatWithinMs?: number;
  /**
   * Extend leases from a second thread as well, where the mailbox and the runtime support it, so that a
   * handler that blocks the event loop does not lose its message. @default {true}
   */
  readonly offThread?: boolean;
}

/** Options of {@linkcode LeaseExtender}. */
export interface LeaseExtenderOptions extends LeaseOptions {
  /** The clock of its timer. With another than the system's there is no second thread. @default {systemClock} */
  readonly clock?: Clock;
  /** Receives warnings about lost leases and failed extensions. @default {libraryLog} */
  readonly log?: Log;
}

/** What an extension needs to know about a message. */
export interface LeaseSubject extends LeaseOptions {
  /** Its mailbox, to extend many leases in one call. */
  readonly mailbox?: Mailbox<unknown>;
  /** The visibility timeout it was received with. */
  readonly visibilityTimeoutMs?: number;
}

/** The longest interval, as a share of the visibility timeout. More leaves no time to retry. */
const ADAPTIVE_SHARE = 0.4;

/**
 * Extends the leases of messages while handlers work on them, so that a short visibility timeout works
 * with long handlers. All leases of a process share one timer.
 *
 * @example
 * ```ts
 * import { InMemoryMailbox, LeaseExtender } from "@lastcall/lastcall";
 *
 * const mailbox = new InMemoryMailbox<string>("orders");
 * await mailbox.send("tea");
 * const extender = new LeaseExtender({ intervalMs: 30_000 });
 * for (const message of await mailbox.receive()) {
 *   await extender.extend(message, async ({ signal }) => {
 *     console.log("working on", message.body, signal.aborted);
 *   });
 *   await message.acknowledge();
 * }
 * ```
 */
export class LeaseExtender {
  readonly #options: LeaseExtenderOptions;
  readonly #clock: Clock;
  readonly #timer: LeaseTimer;
  readonly #owner: LeaseOwner;

  /** Checks the options. No timer runs before the first lease. */
  constructor(options: LeaseExtenderOptions = {}) {
    checkOptions(options);
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#timer = LeaseTimer.of(this.#clock);
    this.#owner = {
      counters: { attempts: 0, failures: 0, losses: 0, withheld: 0 },
      log: safeLog(options.log),
      remove: (lease) => this.#timer.remove(lease),
    };
  }

  /** Counts of the extensions so far. */
  get counters(): LeaseCounters {
    return { ...this.#owner.counters };
  }

  /** Extends the lease of a message until the returned lease is stopped or disposed of. */
  extend(message: Message<unknown>, subject?: LeaseSubject): Lease;
  /** Extends the lease of a message while `work` runs, and returns the result of `work`. */
  extend<T>(
    message: Message<unknown>,
    work: (lease: Lease) => Promise<T> | T,
    subject?: LeaseSubject,
  ): Promise<T>;
  extend<T>(
    message: Message<unknown>,
    workOrSubject: ((lease: Lease) => Promise<T> | T) | LeaseSubject = {},
    subject: LeaseSubject = {},
  ): Lease | Promise<T> {
    if (typeof workOrSubject !== "function") return this.leases(workOrSubject).take(message);
    return this.#during(this.leases(subject).take(message), workOrSubject);
  }

  /** Computes the terms once, for many messages of the same subject. */
  leases(subject: LeaseSubject): Leases {
    checkOptions(subject);
    const { mailbox } = subject;
    const { enabled = true, offThread = true } = { ...this.#options, ...subject };
    return new Leases(mailbox, this.#terms(subject), this.#owner, {
      enabled,
      offThread,
      clock: this.#clock,
    });
  }

  async #during<T>(lease: Lease, work: (lease: Lease) => Promise<T> | T): Promise<T> {
    try {
      return await work(lease);
    } finally {
      await lease.stop();
    }
  }

  #terms(subject: LeaseSubject): LeaseTerms {
    const own = this.#options;
    const { visibilityTimeoutMs } = subject;
    const intervalMs = subject.intervalMs ?? own.intervalMs ?? 60_000;
    const adaptive = subject.adaptive ?? own.adaptive ?? true;
    const longestMs = adaptive && visibilityTimeoutMs !== undefined
      ? visibilityTimeoutMs * ADAPTIVE_SHARE
      : Infinity;
    return {
      intervalMs: Math.max(1, Math.min(intervalMs, longestMs)),
      extensionMs: subject.extensionMs ?? own.extensionMs ?? visibilityTimeoutMs ?? 300_000,
      beatWithinMs: subject.beatWithinMs ?? own.beatWithinMs ?? Infinity,
    };
  }
}

/** Options of {@linkcode Leases}. */
export interface LeasesOptions {
  readonly enabled: boolean;
  readonly offThread: boolean;
  readonly clock: Clock;
}

/** The leases of many messages of one mailbox, on the same terms. Made by `LeaseExtender.leases`. */
export class Leases {
  readonly #mailbox: Mailbox<unknown> | undefined;
  readonly #terms: LeaseTerms;
  readonly #owner: LeaseOwner;
  readonly #options: LeasesOptions;
  readonly #timer: LeaseTimer;
  #releaseTimer: (() => void) | undefined;
  #group: LeaseGroup | undefined;

  /** No timer runs before the first lease. */
  constructor(
    mailbox: Mailbox<unknown> | undefined,
    terms: LeaseTerms,
    owner: LeaseOwner,
    options: LeasesOptions,
  ) {
    this.#mailbox = mailbox;
    this.#terms = terms;
    this.#owner = owner;
    this.#options = options;
    this.#timer = LeaseTimer.of(options.clock);
  }

  /** Prepares the timer, and the thread where there is one, until `end`. */
  begin(): Promise<void> | undefined {
    this.#releaseTimer = this.#timer.retain();
    const { enabled, offThread, clock } = this.#options;
    // The thread runs on the system's clock.
    const wanted = enabled && offThread && clock === systemClock;
    return wanted && this.#mailbox?.offThread !== undefined ? this.#join() : undefined;
  }

  /** Extends the lease of a message until it is stopped or disposed of. */
  take(message: Message<unknown>): Lease {
    const { enabled, clock } = this.#options;
    const lease = new ActiveLease(
      message,
      this.#mailbox,
      this.#terms,
      this.#owner,
      clock,
      this.#group,
    );
    if (enabled) this.#timer.add(lease);
    return lease;
  }

  /** Undoes `begin`. Leases that are still active are extended by this thread only. */
  end(): void {
    this.#group?.leave();
    this.#group = undefined;
    this.#releaseTimer?.();
    this.#releaseTimer = undefined;
  }

  async #join(): Promise<void> {
    const plan = await this.#mailbox!.offThread!();
    if (plan === undefined) return;
    const { address } = await import("./_lease_thread_main.ts");
    const group = await LeaseThread.join(address, plan, this.#terms, this.#owner.log);
    if (this.#releaseTimer === undefined) group?.leave(); // `end` was called meanwhile
    else this.#group = group;
  }
}

function checkOptions({ intervalMs, extensionMs, beatWithinMs }: LeaseOptions): void {
  if (intervalMs !== undefined) checkInterval("intervalMs", intervalMs);
  if (extensionMs !== undefined) checkInterval("extensionMs", extensionMs, MAX_VISIBILITY_MS);
  if (beatWithinMs !== undefined && beatWithinMs !== Infinity) {
    checkInterval("beatWithinMs", beatWithinMs);
  }
}
