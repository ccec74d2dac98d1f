import { checkInterval, MAX_VISIBILITY_MS } from "../_checks.ts";
import { type Clock, systemClock } from "../clock.ts";
import { safeLog } from "../library_log.ts";
import type { Log } from "../log.ts";
import type { Mailbox, Message } from "../mailbox/mailbox.ts";
import type { LeaseOwner, LeaseTerms } from "./_kept_lease.ts";
import type { Lease, LeaseCounters } from "./lease.ts";
import { LeaseKeeper } from "./_lease_keeper.ts";
import { Leases } from "./leases.ts";

/** How leases are kept. Each may be overridden for one message. */
export interface LeaseOptions {
  /** How often the lease is extended. @default {60_000} */
  readonly intervalMs?: number;
  /** How long it then lasts from that moment. @default {the visibility timeout, 300_000 if unknown} */
  readonly extensionMs?: number;
  /**
   * False keeps no lease at all: messages go back when their visibility timeout has passed.
   *
   * @default {true}
   */
  readonly enabled?: boolean;
  /** Extend at least every 40 % of the visibility timeout, where that is known. @default {true} */
  readonly adaptive?: boolean;
  /**
   * Extend only while the work beats at least this often, so that a stuck handler's message goes back
   * to the queue. @default {Infinity}
   */
  readonly beatWithinMs?: number;
  /**
   * Loops keep leases from a thread of their own as well, so that a handler that blocks the event loop
   * does not lose its message; where the mailbox and the runtime can. @default {true}
   */
  readonly offThread?: boolean;
}

/** Options of {@linkcode LeaseExtender}. */
export interface LeaseExtenderOptions extends LeaseOptions {
  /** What its timer lives by; with another than the machine's there is no thread. @default {systemClock} */
  readonly clock?: Clock;
  /** Hears of leases that were lost or could not be extended. @default {libraryLog} */
  readonly log?: Log;
}

/** What is known of one message beyond itself. */
export interface LeaseSubject extends LeaseOptions {
  /** Its mailbox, which may extend many leases in one call. */
  readonly mailbox?: Mailbox<unknown>;
  /** The visibility timeout it was received with. */
  readonly visibilityTimeoutMs?: number;
}

/** A larger share of the visibility timeout would leave no time for a second attempt. */
const ADAPTIVE_SHARE = 0.4;

/**
 * Keeps messages leased while they are worked on, so that the visibility timeout can be short and the
 * work long. All leases of a process share one timer.
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
  readonly #keeper: LeaseKeeper;
  readonly #owner: LeaseOwner;

  /** Checks the options; nothing ticks before the first lease. */
  constructor(options: LeaseExtenderOptions = {}) {
    checkOptions(options);
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#keeper = LeaseKeeper.of(this.#clock);
    this.#owner = {
      counters: { attempts: 0, failures: 0, losses: 0, withheld: 0 },
      log: safeLog(options.log),
      release: (lease) => this.#keeper.release(lease),
    };
  }

  /** What the extensions came to so far. */
  get counters(): LeaseCounters {
    return { ...this.#owner.counters };
  }

  /** Keeps a message leased until the returned lease is stopped or disposed of. */
  extend(message: Message<unknown>, subject?: LeaseSubject): Lease;
  /** Keeps a message leased while `work` runs, and returns what it returns. */
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

  /** The same for many messages of which the same is known: works it out once. */
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

function checkOptions({ intervalMs, extensionMs, beatWithinMs }: LeaseOptions): void {
  if (intervalMs !== undefined) checkInterval("intervalMs", intervalMs);
  if (extensionMs !== undefined) checkInterval("extensionMs", extensionMs, MAX_VISIBILITY_MS);
  if (beatWithinMs !== undefined && beatWithinMs !== Infinity) {
    checkInterval("beatWithinMs", beatWithinMs);
  }
}
