import { checkInterval, MAX_VISIBILITY_MS } from "../_checks.ts";
import { type Clock, systemClock } from "../clock.ts";
import type { LeaseLostError } from "../errors.ts";
import { safeLog } from "../library_log.ts";
import type { Log } from "../log.ts";
import { DEFAULT_VISIBILITY_TIMEOUT_MS, type Mailbox, type Message } from "../mailbox/mailbox.ts";
import { ActiveLease, type LeaseScope } from "./_active_lease.ts";
import { type LeaseGroup, type LeaseTerms, LeaseThread } from "./_lease_thread.ts";
import { LeaseTimer } from "./_lease_timer.ts";

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
  /**
   * Sends a heartbeat. With `beatWithinMs` a lease without heartbeats is not extended. Pass the time of the
   * monotonic clock if it has just been read.
   */
  beat(now?: number): void;
  /**
   * Returns true when the lease has ended by the clock of this process, because it was not extended in time, as
   * after a suspension. It is `lost` once the mailbox has said so. Pass the time of the monotonic clock if it
   * has just been read.
   */
  expired(now?: number): boolean;
  /** Ends the extension, and waits for a running one. The message can be settled afterwards. */
  stop(): Promise<void> | undefined;
}

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
  /** Called when a lease is lost. */
  readonly onLost?: (message: Message<unknown>, error: LeaseLostError) => void;
}

/** The default time between two extensions. */
export const DEFAULT_LEASE_INTERVAL_MS = 60_000;

/** The longest interval, as a share of the visibility timeout. More leaves no time to retry. */
export const LEASE_INTERVAL_SHARE = 0.4;

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
  readonly #log: Log;
  readonly #counters = { attempts: 0, failures: 0, losses: 0, withheld: 0 };

  /** Checks the options. No timer runs before the first lease. */
  constructor(options: LeaseExtenderOptions = {}) {
    checkOptions(options);
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#log = safeLog(options.log);
  }

  /** The options that were set. */
  get options(): LeaseOptions {
    return this.#options;
  }

  /** Counts of the extensions so far. */
  get counters(): LeaseCounters {
    return { ...this.#counters };
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
    const { enabled = true, offThread = true } = { ...this.#options, ...subject };
    const scope = {
      mailbox: subject.mailbox,
      visibilityTimeoutMs: subject.visibilityTimeoutMs,
      terms: this.#terms(subject),
      counters: this.#counters,
      log: this.#log,
      clock: this.#clock,
      timer: LeaseTimer.of(this.#clock),
      onLost: subject.onLost,
    };
    return new Leases(scope, enabled, offThread);
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
    const intervalMs = subject.intervalMs ?? own.intervalMs ?? DEFAULT_LEASE_INTERVAL_MS;
    const adaptive = subject.adaptive ?? own.adaptive ?? true;
    const longestMs = adaptive && visibilityTimeoutMs !== undefined
      ? visibilityTimeoutMs * LEASE_INTERVAL_SHARE
      : Infinity;
    return {
      intervalMs: Math.max(1, Math.min(intervalMs, longestMs)),
      extensionMs: subject.extensionMs ?? own.extensionMs ?? visibilityTimeoutMs ??
        DEFAULT_VISIBILITY_TIMEOUT_MS,
      beatWithinMs: subject.beatWithinMs ?? own.beatWithinMs ?? Infinity,
    };
  }
}

/** The leases of many messages of one mailbox, on the same terms. Made by `LeaseExtender.leases`. */
export class Leases {
  readonly #scope: LeaseScope;
  readonly #enabled: boolean;
  readonly #offThread: boolean;
  #releaseTimer: (() => void) | undefined;
  #group: LeaseGroup | undefined;

  /** No timer runs before the first lease. */
  constructor(scope: LeaseScope, enabled: boolean, offThread: boolean) {
    this.#scope = scope;
    this.#enabled = enabled;
    // The thread runs on the system's clock.
    this.#offThread = enabled && offThread && scope.clock === systemClock;
  }

  /** Prepares the timer, and the thread where there is one, until `end`. */
  begin(): Promise<void> | undefined {
    const { timer, mailbox } = this.#scope;
    this.#releaseTimer = timer.retain();
    return this.#offThread && mailbox?.offThread !== undefined ? this.#join() : undefined;
  }

  /**
   * Extends the lease of a message until it is stopped or disposed of. A message that waits for its handler
   * needs no heartbeats; the first one starts to count. Pass the time of the monotonic clock if it has just been
   * read.
   */
  take(
    message: Message<unknown>,
    { waits = false, now = this.#scope.clock.monotonic() }: {
      readonly waits?: boolean;
      readonly now?: number;
    } = {},
  ): Lease {
    const lease = new ActiveLease(message, this.#scope, this.#group, now);
    lease.waits = waits;
    if (this.#enabled) this.#scope.timer.add(lease);
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
    const { mailbox, terms, log } = this.#scope;
    const plan = mailbox!.offThread!();
    if (plan === undefined) return;
    const { address } = await import("./_lease_thread_main.ts");
    const group = await LeaseThread.join(address, plan, terms, log);
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
