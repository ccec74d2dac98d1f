import { type BackoffOptions, checkBackoff } from "../_backoff.ts";
import { checkCount, checkDuration, checkOneOf, MAX_VISIBILITY_MS, show } from "../_checks.ts";
import { mailboxName, withMailbox } from "../engines/open_mailbox.ts";
import {
  LeaseExtender,
  type LeaseExtenderOptions,
  type LeaseOptions,
} from "../lease/lease_extender.ts";
import { BaseLoop, type LoopContext, type LoopOptions } from "../lifecycle/base_loop.ts";
import {
  type InFlight,
  type MessageCounts,
  type MessageInFlight,
  type MessagesAhead,
  NO_COUNTS,
  type RunOptions,
} from "../lifecycle/runnable.ts";
import { safeLog } from "../library_log.ts";
import type { Log } from "../log.ts";
import { type DeadLetterOptions, DeadLetterPolicy } from "../mailbox/dead_letters.ts";
import {
  DEFAULT_VISIBILITY_TIMEOUT_MS,
  DEFAULT_WAIT_TIME_MS,
  type Mailbox,
  MAX_BATCH,
  MAX_DELAY_MS,
} from "../mailbox/mailbox.ts";
import { DurationHistogram } from "../telemetry/duration_histogram.ts";
import type { MetricSample } from "../telemetry/metrics.ts";
import type { Around, Handler, OnDeadLetter } from "./handler.ts";
import { MailboxRun } from "./_mailbox_run.ts";
import type { StandardSchema } from "./schema.ts";
import type { RunConfig } from "./_run_config.ts";

export type { BackoffOptions };

/** Options of {@linkcode MailboxLoop}. */
export interface MailboxLoopOptions<T, R = unknown> extends LoopOptions {
  /**
   * The mailbox to receive from, or its URL for `openMailbox`. With a URL the loop opens the mailbox when a
   * run starts, and closes it when the run ends. A run whose mailbox cannot be opened rejects, and a group
   * with `onFailure: "restart"` tries again.
   */
  readonly mailbox: Mailbox<T, R> | string;
  /** Handles one message. */
  readonly handler: Handler<T, R>;
  /** The name in reports and health. @default {the mailbox's name, or the queue of the URL} */
  readonly name?: string;
  /** How long received messages stay invisible to other workers, up to 43 200 000 ms. @default {300_000} */
  readonly visibilityTimeoutMs?: number;
  /** How long one receive waits for messages. @default {20_000} */
  readonly waitTimeMs?: number;
  /** How many messages are handled at a time, up to 1 000. @default {1} */
  readonly concurrency?: number;
  /**
   * How many more messages are received ahead. Their leases are extended, and a stop releases them. `"auto"`
   * receives as many as the handlers complete in 20 ms, and releases messages that have waited 100 ms: fast handlers
   * receive large batches ahead, slow ones none. @default {"auto"}
   */
  readonly prefetch?: number | "auto";
  /** How leases are extended while messages are handled; `false` switches it off. */
  readonly lease?: LeaseExtender | LeaseExtenderOptions | false;
  /**
   * When a message is dead-lettered; `false` retries it for ever. Without this option, a mailbox that keeps
   * no dead letters retries for ever, too.
   *
   * @default {after 10 failed attempts}
   */
  readonly deadLetter?: DeadLetterPolicy | DeadLetterOptions | false;
  /** Called before a message is dead-lettered, for example to notify its sender. Its errors are logged. */
  readonly onDeadLetter?: OnDeadLetter<T, R>;
  /** Runs around the handler of each message. */
  readonly around?: Around<T, R>;
  /** The schema of bodies. A message that does not match is dead-lettered with the issues. */
  readonly schema?: StandardSchema<T>;
  /** The pause before a failed message is retried. @default {from 1 s to 5 min} */
  readonly backoff?: BackoffOptions;
  /** Where failures of handlers and of the engine are logged. @default {libraryLog} */
  readonly log?: Log;
}

/** The options of a loop with their defaults, as far as they decide how it receives and stops. */
export interface MailboxLoopSettings {
  /** The mailbox, or its URL, which may contain a password. */
  readonly mailbox: unknown;
  /** How long received messages stay invisible to other workers. */
  readonly visibilityTimeoutMs: number;
  /** How many messages are handled at a time. */
  readonly concurrency: number;
  /** How many more messages are received ahead. */
  readonly prefetch: number | "auto";
  /** How leases are extended. */
  readonly lease: LeaseOptions;
  /** A message that failed this often is dead-lettered; `false`: it is retried for ever. */
  readonly maxDeliveries: number | false;
}

/** The default pauses before a failed message is retried. */
const DEFAULT_BACKOFF: Required<BackoffOptions> = { minMs: 1_000, maxMs: 300_000 };

/**
 * Receives messages, extends their leases while handlers run, and settles them: it acknowledges when the
 * handler returns, nacks when it throws, and dead-letters after the last attempt. A stop finishes the
 * messages in flight and releases the unstarted ones.
 *
 * @example
 * ```ts
 * import { InMemoryMailbox, LoopGroup, MailboxLoop } from "@lastcall/lastcall";
 *
 * const mailbox = new InMemoryMailbox<string>("orders");
 * await mailbox.sendMany(["tea", "cake"]);
 * const loop = new MailboxLoop({
 *   mailbox,
 *   concurrency: 2,
 *   deadLetter: { maxDeliveries: 3 },
 *   handler: (message, { attempt }) => console.log(message.body, "attempt", attempt),
 * });
 * const report = await new LoopGroup([loop]).run({ maxIterations: 1 });
 * console.assert(report.counts.acknowledged === 2);
 * ```
 */
export class MailboxLoop<T, R = unknown> extends BaseLoop {
  readonly #config: Omit<RunConfig<T, R>, "mailbox" | "policy" | "maxDelayMs">;
  /** A URL is opened for each run. */
  readonly #source: Mailbox<T, R> | string;
  /** Undefined for the default policy. */
  readonly #policy: DeadLetterPolicy | false | undefined;
  #mailbox: Mailbox<T, R> | undefined;
  #current: MailboxRun<T, R> | undefined;

  /**
   * Checks the options. Nothing starts before `run`.
   *
   * @throws {TypeError | RangeError} when an option is invalid.
   * @throws {InvalidParameterError} when the URL is malformed, or has a scheme or parameter that is unknown.
   */
  constructor(options: MailboxLoopOptions<T, R>) {
    const { mailbox, handler, around, lease = {}, deadLetter, onDeadLetter, schema } = options;
    const { prefetch = "auto" } = options;
    const queue = mailboxName(mailbox);
    super(options.name ?? queue, options);
    if (typeof handler !== "function") {
      throw new TypeError(
        `Invalid handler of loop "${this.name}": expected a function, got ${show(handler)}`,
      );
    }
    if (onDeadLetter !== undefined) checkOneOf("onDeadLetter", typeof onDeadLetter, ["function"]);
    if (around !== undefined) checkOneOf("around", typeof around, ["function"]);
    if (schema !== undefined && typeof schema["~standard"]?.validate !== "function") {
      throw new TypeError(`Invalid schema of loop "${this.name}": expected a Standard Schema`);
    }
    const backoff = checkBackoff(options.backoff ?? {}, DEFAULT_BACKOFF);
    const log = safeLog(options.log);
    const leaseOptions = lease === false ? { enabled: false } : lease;
    const {
      visibilityTimeoutMs = DEFAULT_VISIBILITY_TIMEOUT_MS,
      waitTimeMs = DEFAULT_WAIT_TIME_MS,
    } = options;
    this.#source = mailbox;
    this.#mailbox = typeof mailbox === "string" ? undefined : mailbox;
    this.#policy = deadLetter instanceof DeadLetterPolicy || !deadLetter
      ? deadLetter
      : new DeadLetterPolicy(deadLetter);
    this.#config = {
      handler,
      around,
      concurrency: checkCount("concurrency", options.concurrency ?? 1, 1, MAX_BATCH),
      prefetch: prefetch === "auto" ? prefetch : checkCount("prefetch", prefetch),
      visibilityTimeoutMs: checkDuration(
        "visibilityTimeoutMs",
        visibilityTimeoutMs,
        MAX_VISIBILITY_MS,
      ),
      waitTimeMs: checkDuration("waitTimeMs", waitTimeMs),
      extender: leaseOptions instanceof LeaseExtender
        ? leaseOptions
        : new LeaseExtender({ clock: this.clock, log, ...leaseOptions }),
      onDeadLetter,
      schema,
      backoff,
      durations: new DurationHistogram(),
      clock: this.clock,
      random: this.random,
      heartbeat: this.heartbeat,
      log,
      admission: (stopping) => this.paused ? this.admission(stopping) : undefined,
    };
  }

  /** The counts of the messages of this run, or of the last one, by outcome. */
  get counts(): MessageCounts {
    return this.#current?.settler.counts ?? NO_COUNTS;
  }

  /** The messages that are not settled. */
  override get inFlight(): readonly InFlight[] {
    return this.#current?.settler.inFlight ?? [];
  }

  /** The progress of the messages whose handlers run: at most 10, the longest-running first. */
  get messagesInFlight(): readonly MessageInFlight[] {
    return this.#current?.settler.messagesInFlight ?? [];
  }

  /** How many messages may currently be received ahead, and how many are waiting. Undefined before the first run. */
  get ahead(): MessagesAhead | undefined {
    return this.#current?.ahead;
  }

  /** False while messages cannot be received, or the mailbox reports a problem or is not open yet. */
  get ready(): boolean {
    const mailbox = this.#mailbox;
    return mailbox !== undefined && mailbox.trouble === undefined && (this.#current?.ready ?? true);
  }

  /** The mailbox to receive from. With a URL it is undefined while no run has opened it. */
  get mailbox(): Mailbox<T, R> | undefined {
    return this.#mailbox;
  }

  /** The options with their defaults, for tools that check them. */
  get settings(): MailboxLoopSettings {
    const { visibilityTimeoutMs, concurrency, prefetch, extender } = this.#config;
    const policy = this.#policy ?? new DeadLetterPolicy();
    return {
      ...{ mailbox: this.#source, visibilityTimeoutMs, concurrency, prefetch },
      lease: extender.options,
      maxDeliveries: policy && policy.maxDeliveries,
    };
  }

  /** The lease extender and its counters. */
  get leases(): LeaseExtender {
    return this.#config.extender;
  }

  /** The durations of its handler calls in all its runs, as the samples of a histogram in seconds. */
  get durations(): readonly MetricSample[] {
    return this.#config.durations.samples({ loop: this.name });
  }

  /** Receives no messages until `resume`, and ends a waiting receive. Resolves when none is in flight. */
  override async pause(): Promise<void> {
    const paused = super.pause();
    this.#current?.endWait();
    await paused;
    if (!this.callerIsInside) await this.#current?.settler.allSettled();
  }

  /** Releases the messages of handlers that still run, because the process is about to end. */
  async abandon(): Promise<void> {
    await this.#current?.settler.abandon();
  }

  /** Receives, handles and settles until the stop. */
  protected override async work(context: LoopContext, options: RunOptions): Promise<void> {
    const source = this.#source;
    await withMailbox(source, this.#config, context.stopping, async (mailbox) => {
      this.#mailbox = mailbox;
      try {
        await this.#run(mailbox, context, options);
      } finally {
        if (typeof source === "string") this.#mailbox = undefined;
      }
    });
  }

  async #run(mailbox: Mailbox<T, R>, context: LoopContext, options: RunOptions): Promise<void> {
    const {
      visibilityTimeoutMs = this.#config.visibilityTimeoutMs,
      waitTimeMs = this.#config.waitTimeMs,
    } = options;
    const policy = this.#policy ??
      (mailbox.deadLetters === undefined ? false : new DeadLetterPolicy());
    const config: RunConfig<T, R> = {
      ...this.#config,
      mailbox,
      visibilityTimeoutMs,
      waitTimeMs,
      policy: policy || undefined,
      maxDelayMs: mailbox.capabilities.longDelays ? MAX_DELAY_MS : MAX_VISIBILITY_MS,
    };
    this.#current = new MailboxRun(config, context, options);
    await this.#current.execute();
  }
}
