import { type BackoffOptions, checkBackoff } from "../_backoff.ts";
import { checkCount, checkOneOf } from "../_checks.ts";
import { LeaseExtender, type LeaseExtenderOptions } from "../lease/lease_extender.ts";
import { BaseLoop, type LoopContext, type LoopOptions } from "../lifecycle/base_loop.ts";
import { type Figures, NO_FIGURES, type RunOptions } from "../lifecycle/runnable.ts";
import { safeLog } from "../library_log.ts";
import type { Log } from "../log.ts";
import { type DeadLetterOptions, DeadLetterPolicy } from "../mailbox/dead_letters.ts";
import { type Mailbox, MAX_BATCH } from "../mailbox/mailbox.ts";
import type { Handler, OnBury } from "./handler.ts";
import type { MailboxRunConfig } from "./_handle.ts";
import { MailboxRun } from "./_mailbox_run.ts";
import type { StandardSchema } from "./schema.ts";

export type { BackoffOptions };

/** Options of {@linkcode MailboxLoop}. */
export interface MailboxLoopOptions<T, R = unknown> extends LoopOptions {
  /** Where the messages come from. */
  readonly mailbox: Mailbox<T, R>;
  /** Works on one message. */
  readonly handler: Handler<T, R>;
  /** What reports and health call it by. @default {the mailbox's name} */
  readonly name?: string;
  /** How many messages are worked on at a time, up to 1 000. @default {1} */
  readonly concurrency?: number;
  /** How many more are received ahead; they keep their lease and go back on a stop. @default {0} */
  readonly prefetch?: number;
  /** How messages are kept leased while they are worked on; `false` switches it off. */
  readonly lease?: LeaseExtender | LeaseExtenderOptions | false;
  /** When a message has failed for good. @default {never: it is tried again for ever} */
  readonly deadLetter?: DeadLetterPolicy | DeadLetterOptions;
  /** Called before a message is buried, as to tell its sender; a failure of it is only logged. */
  readonly onBury?: OnBury<T, R>;
  /** What bodies must look like; what does not fit is buried with the reasons. */
  readonly schema?: StandardSchema<T>;
  /** How long a failed message stays hidden. @default {from 1 s to 5 min} */
  readonly backoff?: BackoffOptions;
  /** Hears of failures of handlers and of the engine. @default {libraryLog} */
  readonly log?: Log;
}

/** The pauses before a failed message is tried again, unless told. */
const DEFAULT_BACKOFF: Required<BackoffOptions> = { minMs: 1_000, maxMs: 300_000 };

/**
 * Receives messages, keeps them leased while a handler works, and settles them: done when the handler
 * returns, tried again when it throws, buried when that is no use. A stop finishes what is in flight
 * and gives back what was not started.
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
 * console.assert(report.figures.acknowledged === 2);
 * ```
 */
export class MailboxLoop<T, R = unknown> extends BaseLoop {
  readonly #config: MailboxRunConfig<T, R>;
  #current: MailboxRun<T, R> | undefined;

  /** Checks the options; nothing happens before `run`. */
  constructor(options: MailboxLoopOptions<T, R>) {
    const { mailbox, handler, lease = {}, deadLetter, onBury, schema } = options;
    if (typeof mailbox?.receive !== "function") {
      throw new TypeError("Invalid mailbox: expected one with a `receive` function");
    }
    super(options.name ?? mailbox.name, options);
    if (typeof handler !== "function") {
      throw new TypeError(`Invalid handler of loop "${this.name}": expected a function`);
    }
    if (onBury !== undefined) checkOneOf("onBury", typeof onBury, ["function"]);
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
      onBury,
      schema,
      minBackoffMs: backoff.minMs,
      maxBackoffMs: backoff.maxMs,
      clock: this.clock,
      heartbeat: this.heartbeat,
      log,
      admission: (stopping) => this.drained ? this.admission(stopping) : undefined,
      track: (work) => this.track(work),
      untrack: (work) => this.untrack(work),
    };
  }

  /** What became of the messages of this run, or of the last one. */
  get figures(): Figures {
    return this.#current?.figures ?? NO_FIGURES;
  }

  /** False while messages cannot be received, or the mailbox is in trouble. */
  get ready(): boolean {
    return (this.#current?.ready ?? true) && this.#config.mailbox.trouble === undefined;
  }

  /** Where the messages come from. */
  get mailbox(): Mailbox<T, R> {
    return this.#config.mailbox;
  }

  /** What keeps the messages leased, with its counters. */
  get leases(): LeaseExtender {
    return this.#config.extender;
  }

  /** Takes no new messages until `resume`, a wait for one ends at once; resolves when none is in flight. */
  override async drain(): Promise<void> {
    const drained = super.drain();
    this.#current?.endWait();
    await drained;
  }

  /** Gives back what handlers still work on, because the process ends in a moment. */
  async abandon(): Promise<void> {
    await this.#current?.abandon();
  }

  /** Receives, handles and settles until the stop. */
  protected override async work(context: LoopContext, options: RunOptions): Promise<void> {
    this.#current = new MailboxRun(this.#config, context, options);
    await this.#current.execute();
  }
}
