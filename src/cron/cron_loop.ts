import { checkInterval, checkOneOf, show } from "../_checks.ts";
import { mailboxName, withMailbox } from "../engines/open_mailbox.ts";
import { safeLog } from "../library_log.ts";
import { BaseLoop, type LoopContext, type LoopOptions } from "../lifecycle/base_loop.ts";
import type { RunOptions } from "../lifecycle/runnable.ts";
import type { Log } from "../log.ts";
import {
  checkId,
  checkMailboxName,
  envelopeOf,
  type EnvelopeOptions,
} from "../mailbox/envelope.ts";
import { InvalidParameterError } from "../mailbox/errors.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import { CronRun, type CronRunConfig } from "./_cron_run.ts";
import { Schedule } from "./schedule.ts";
import type { CatchUp, CronSlot, CronStatus } from "./slot.ts";
import { SlotRecord } from "./_slot_record.ts";

const CATCH_UP: readonly CatchUp[] = ["none", "last", "all"];

/** Options of {@linkcode CronLoop}. The options of messages are passed to each `send`. */
export interface CronLoopOptions<T, R = unknown> extends LoopOptions, EnvelopeOptions<R> {
  /** The name in reports and health, and in the ids of the messages: the same in all replicas. */
  readonly name: string;
  /** A cron pattern with five fields, or six with seconds first, or seven with years last. */
  readonly schedule: string;
  /** The IANA name of the time zone of the schedule. @default {"UTC"} */
  readonly timezone?: string;
  /**
   * The mailbox to send to, or its URL for `openMailbox`. With a URL the loop opens the mailbox when a run
   * starts, and closes it when the run ends.
   */
  readonly mailbox: Mailbox<T, R> | string;
  /**
   * The body of the messages, or a function that returns the body of a slot. Each replica calls it. When it
   * throws, the run rejects.
   */
  readonly body: T | ((slot: CronSlot) => T);
  /** What becomes of missed slots. @default {"last"} */
  readonly catchUp?: CatchUp;
  /**
   * How long the mailbox remembers the id of a slot, in milliseconds: at least an hour. The clocks of replicas
   * may differ by less than this. A process that ends between the send of a slot and its record repeats the
   * slot only if no replica starts within this time. @default {604_800_000}, 7 days
   */
  readonly dedupMs?: number;
  /** Where failures of the engine and skipped slots are logged. @default {libraryLog} */
  readonly log?: Log;
}

const DEFAULT_DEDUP_MS = 604_800_000;
const MIN_DEDUP_MS = 3_600_000;

/**
 * Sends one message per slot of a cron schedule, whatever the number of replicas. A `MailboxLoop` handles the
 * messages, in this process or another.
 *
 * Each slot is sent with an id of its own, so the mailbox stores it once. The last slot that was sent is
 * recorded in the queue `<mailbox>.cron` beside the mailbox: a later start finds the slots that were missed.
 * The first start has missed nothing. A slot is never sent before its time by the clock of this process.
 *
 * @example
 * ```ts
 * import { InMemoryMailbox, LoopGroup } from "@lastcall/lastcall";
 * import { CronLoop } from "@lastcall/lastcall/cron";
 *
 * const reports = new InMemoryMailbox<{ until: string }>("reports");
 * const everySecond = new CronLoop({
 *   name: "every-second",
 *   schedule: "* * * * * *",
 *   timezone: "Europe/Berlin",
 *   mailbox: reports,
 *   body: ({ at }) => ({ until: at.toISOString() }),
 * });
 * await new LoopGroup([everySecond]).run({ maxIterations: 1 });
 * console.assert(await reports.approximateCount() === 1);
 * ```
 */
export class CronLoop<T, R = unknown> extends BaseLoop {
  readonly #config: Omit<CronRunConfig<T, R>, "mailbox" | "record">;
  /** A URL is opened for each run. */
  readonly #source: Mailbox<T, R> | string;
  #mailbox: Mailbox<T, R> | undefined;
  #current: CronRun<T, R> | undefined;
  /** The next slot after a time, which the status asks for every second. */
  #found: { readonly after: number; readonly next: Date | undefined } | undefined;

  /**
   * Checks the options. Nothing starts before `run`.
   *
   * @throws {TypeError | RangeError} when an option is invalid.
   * @throws {InvalidParameterError} when the URL is invalid, or the engine of the mailbox cannot remember ids
   * or keep a record.
   */
  constructor(options: CronLoopOptions<T, R>) {
    const { mailbox, body, catchUp = "last", dedupMs = DEFAULT_DEDUP_MS } = options;
    super(options.name, options);
    const { name } = this;
    checkId(name);
    checkMailboxName(recordQueue(mailboxName(mailbox)));
    checkOneOf("catchUp", catchUp, CATCH_UP);
    if (checkInterval("dedupMs", dedupMs) < MIN_DEDUP_MS) {
      throw new RangeError(`Invalid dedupMs: expected at least ${MIN_DEDUP_MS}, got ${dedupMs}`);
    }
    if (body === undefined) {
      throw new TypeError(
        `Invalid body of loop "${name}": expected a value or a function, got ${show(body)}`,
      );
    }
    this.#source = mailbox;
    this.#mailbox = typeof mailbox === "string" ? undefined : mailbox;
    this.#config = {
      name,
      schedule: new Schedule(options.schedule, options.timezone),
      catchUp,
      body: typeof body === "function" ? body as (slot: CronSlot) => T : () => body,
      envelope: envelopeOf(options as EnvelopeOptions<never>),
      dedupMs,
      clock: this.clock,
      random: this.random,
      log: safeLog(options.log),
      rest: () => this.heartbeat.rest(),
      admission: (stopping) => this.admission(stopping),
      track: (work) => this.track(work),
      untrack: (work) => this.untrack(work),
    };
    if (typeof mailbox !== "string") this.#checkEngine(mailbox);
  }

  /** The mailbox or its URL, and how long its engine must remember ids, for tools that check them. */
  get settings(): { readonly mailbox: unknown; readonly dedupMs: number } {
    return { mailbox: this.#source, dedupMs: this.#config.dedupMs };
  }

  /** The next slot of the schedule; undefined when there is none. */
  get next(): Date | undefined {
    const now = this.clock.now();
    const after = Math.max(now, this.#current?.position ?? now);
    const { after: from = Infinity, next: until } = this.#found ?? {};
    // The slot holds until its time comes. Without a next slot, none follows a later time either.
    if (after < from || until !== undefined && after >= until.getTime()) {
      this.#found = { after, next: this.#config.schedule.next(new Date(after)) };
    }
    return this.#found?.next;
  }

  /** The last slot that this run, or the last one, has sent or found sent; undefined before the first. */
  get last(): Date | undefined {
    const last = this.#current?.last;
    return last === undefined ? undefined : new Date(last);
  }

  /** The last and the next slot, as the status of the group shows them. */
  get cron(): CronStatus {
    const { last, next } = this;
    return { ...(last && { last: last.getTime() }), ...(next && { next: next.getTime() }) };
  }

  /** False while slots cannot be sent, or the mailbox reports a problem or is not open yet. */
  get ready(): boolean {
    const mailbox = this.#mailbox;
    return mailbox !== undefined && mailbox.trouble === undefined && (this.#current?.ready ?? true);
  }

  /** Sends slots until the stop. */
  protected override async work(context: LoopContext, options: RunOptions): Promise<void> {
    await withMailbox(this.#source, this.#config, context.stopping, async (mailbox) => {
      this.#checkEngine(mailbox);
      const { name, catchUp, schedule } = this.#config;
      const record = catchUp === "none"
        ? undefined
        : new SlotRecord(mailbox.queue!(recordQueue(mailbox.name)), name, schedule);
      this.#mailbox = mailbox;
      this.#current = new CronRun({ ...this.#config, mailbox, record }, context, options);
      try {
        await this.#current.execute();
      } finally {
        if (typeof this.#source === "string") this.#mailbox = undefined;
        await record?.close();
      }
    });
  }

  /** Throws when the engine cannot send a slot once, or cannot keep the record that `catchUp` needs. */
  #checkEngine({ name, engine = "its engine", capabilities, queue, peek }: Mailbox<T, R>): void {
    const cannot = `Cannot send the slots of "${this.name}" to mailbox "${name}"`;
    if (!capabilities.dedupWindow) {
      throw new InvalidParameterError(
        `${cannot}: ${engine} cannot remember ids, so every replica would send each slot. ` +
          "Use an engine with the capability dedupWindow",
      );
    }
    if (this.#config.catchUp !== "none" && (queue === undefined || peek === undefined)) {
      throw new InvalidParameterError(
        `${cannot} with catchUp ${show(this.#config.catchUp)}: ${engine} has no \`queue\` and ` +
          '`peek` for the record of the last slot. Use catchUp "none" or another engine',
      );
    }
  }
}

/** Returns the name of the queue that has the records of the slots of a mailbox. */
function recordQueue(mailbox: string): string {
  return `${mailbox}.cron`;
}
