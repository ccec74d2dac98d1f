import { type BackoffOptions, checkBackoff } from "../_backoff.ts";
import { checkCount, checkOneOf } from "../_checks.ts";
import { LeaseExtender, type LeaseExtenderOptions } from "../lease/lease_extender.ts";
import { BaseLoop, type LoopContext, type LoopOptions } from "../lifecycle/base_loop.ts";
import { type MessageCounts, NO_COUNTS, type RunOptions } from "../lifecycle/runnable.ts";
import { safeLog } from "../library_log.ts";
import type { Log } from "../log.ts";
import { type DeadLetterOptions, DeadLetterPolicy } from "../mailbox/dead_letters.ts";
import { type Mailbox, MAX_BATCH } from "../mailbox/mailbox.ts";
import type { Handler, OnDeadLetter } from "./handler.ts";
import type { MailboxRunConfig } from "./_handle.ts";
import { MailboxRun } from "./_mailbox_run.ts";
import type { StandardSchema } from "./schema.ts";

export type { BackoffOptions };

/** Options of {@linkcode MailboxLoop}. */
export interface MailboxLoopOptions<T, R = unknown> extends LoopOptions {
  /** The mailbox to receive from. */
  readonly mailbox: Mailbox<T, R>;
  /** Handles one message. */
  readonly handler: Handler<T, R>;
  /** The name in reports and health. @default {the mailbox's name} */
  readonly name?: string;
  /** How many messages are handled at a time, up to 1 000. @default {1} */
  readonly concurrency?: number;
  /** How many more messages are received ahead. Their leases are extended; a stop releases them. @default {0} */
  readonly prefetch?: number;
  /** How leases are extended while messages are handled; `false` switches it off. */
  readonly lease?: LeaseExtender | LeaseExtenderOptions | false;
  /** When a message is dead-lettered. @default {never: it is retried forever} */
  readonly deadLetter?: DeadLetterPolicy | DeadLetterOptions;
  /** Called before a message is dead-lettered, for example to notify its sender. Its errors are logged. */
  readonly onDeadLetter?: OnDeadLetter<T, R>;
  /** The schema of bodies. A message that does not match is dead-lettered with the issues. */
  readonly schema?: StandardSchema<T>;
  /** The pause before a failed message is retried. @default {from 1 s to 5 min} */
  readonly backoff?: BackoffOptions;
  /** Where failures of handlers and of the engine are logged. @default {libraryLog} */
  readonly log?: Log;
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
  readonly #config: MailboxRunConfig<T, R>;
  #current: MailboxRun<T, R> | undefined;

  /** Checks the options. Nothing starts before `run`. */
  constructor(options: MailboxLoopOptions<T, R>) {
    const { mailbox, handler, lease = {}, deadLetter, onDeadLetter, schema } = options;
    if (typeof mailbox?.receive !== "function") {
      throw new TypeError("Invalid mailbox: expected one with a `receive` function");
    }
    super(options.name ?? mailbox.name, options);
    if (typeof handler !== "function") {
      throw new TypeError(`Invalid handler of loop "${this.name}": expected a function`);
    }
    if (onDeadLetter !== undefined) checkOneOf("onDeadLetter", typeof onDeadLetter, ["function"]);
    if (schema !== undefined && typeof schema["~standard"]?.validate !== "function") {
      throw new TypeError(`Invalid schema of loop "${this.name}": expected a Standard Schema`);
    }
    const backoff = checkBackoff(options.backoff ?? {}, DEFAULT_BACKOFF);
    const log = safeLog(options.log);
    const leaseOptions = lease === false ? { enabled: false } : lease;
    this.#config = {
      mailbox,
      handler,
      concurrency: checkCount("concurrency", options.concurrency ?? 1, 1, MAX_BATCH),
      prefetch: checkCount("prefetch", options.prefetch ?? 0),
      extender: leaseOptions instanceof LeaseExtender
        ? leaseOptions
        : new LeaseExtender({ clock: this.clock, log, ...leaseOptions }),
      policy: deadLetter instanceof DeadLetterPolicy || deadLetter === undefined
        ? deadLetter
        : new DeadLetterPolicy(deadLetter),
      onDeadLetter,
      schema,
      minBackoffMs: backoff.minMs,
      maxBackoffMs: backoff.maxMs,
      clock: this.clock,
      heartbeat: this.heartbeat,
      log,
      admission: (stopping) => this.paused ? this.admission(stopping) : undefined,
      track: (work) => this.track(work),
      untrack: (work) => this.untrack(work),
    };
  }

  /** The counts of the messages of this run, or of the last one, by outcome. */
  get counts(): MessageCounts {
    return this.#current?.counts ?? NO_COUNTS;
  }

  /** False while messages cannot be received, or the mailbox reports a problem. */
  get ready(): boolean {
    return (this.#current?.ready ?? true) && this.#config.mailbox.trouble === undefined;
  }

  /** The mailbox to receive from. */
  get mailbox(): Mailbox<T, R> {
    return this.#config.mailbox;
  }

  /** The lease extender and its counters. */
  get leases(): LeaseExtender {
    return this.#config.extender;
  }

  /** Receives no messages until `resume`, and ends a waiting receive. Resolves when none is in flight. */
  override async pause(): Promise<void> {
    const paused = super.pause();
    this.#current?.endWait();
    await paused;
  }

  /** Releases the messages of handlers that still run, because the process is about to end. */
  async abandon(): Promise<void> {
    await this.#current?.abandon();
  }

  /** Receives, handles and settles until the stop. */
  protected override async work(context: LoopContext, options: RunOptions): Promise<void> {
    this.#current = new MailboxRun(this.#config, context, options);
    await this.#current.execute();
  }
}
