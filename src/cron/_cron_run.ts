import { backoffMs } from "../_backoff.ts";
import { EventLoopYield } from "../_event_loop_yield.ts";
import { abortable } from "../_promises.ts";
import type { Clock } from "../clock.ts";
import type { LoopContext, Work } from "../lifecycle/base_loop.ts";
import type { RunOptions } from "../lifecycle/runnable.ts";
import type { Log } from "../log.ts";
import type { Envelope } from "../mailbox/envelope.ts";
import { isMailboxError, type MailboxErrorName } from "../mailbox/errors.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import type { Random } from "../random.ts";
import type { Schedule } from "./schedule.ts";
import { type CatchUp, type CronSlot, isoTime, slotId } from "./slot.ts";
import type { SlotRecord } from "./_slot_record.ts";

/** A slot that could not be sent for this long after its time is missed: `catchUp` decides about it. */
const MISSED_AFTER_MS = 60_000;

/** The most slots that one catch-up sends. */
const MAX_CATCH_UP = 10_000;

/** How many slots one call sends during a catch-up. */
const BATCH = 100;

/**
 * The longest timer. A timer does not notice that the machine was suspended or that its clock was set, so the
 * loop compares the wall clock at least this often.
 */
const MAX_SLEEP_MS = 30_000;

/** The pauses between attempts while the engine cannot be reached. */
const PAUSE_MS = { min: 100, max: 1_000 } as const;

/** What a retry cannot repair. */
const FATAL: readonly MailboxErrorName[] = [
  "InvalidParameterError",
  "MailboxClosedError",
  "SerializationError",
];

/** What a {@linkcode CronRun} needs of its loop. */
export interface CronRunConfig<T, R> {
  readonly name: string;
  readonly schedule: Schedule;
  readonly mailbox: Mailbox<T, R>;
  /** Absent with `catchUp: "none"`. */
  readonly record: SlotRecord | undefined;
  readonly catchUp: CatchUp;
  readonly body: (slot: CronSlot) => T;
  readonly envelope: Envelope;
  readonly dedupMs: number;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly rest: () => void;
  readonly admission: (stopping: AbortSignal) => Promise<void>;
  readonly track: (work: Work) => Work;
  readonly untrack: (work: Work) => void;
}

/** The slots to send now, oldest first, and the latest of those that are skipped. */
interface DueSlots {
  readonly slots: readonly number[];
  readonly skipped: number | undefined;
}

/** An error of the `body` function of the user. */
class BodyError extends Error {
  override readonly name = "BodyError";
}

/**
 * One run of a {@linkcode CronLoop}.
 *
 * ```text
 * read the record ─▶ sleep ── a slot is due ──▶ send ──▶ save the record ─┐
 *                      ▲                         │ the engine fails: pause │
 *                      └─────────────────────────┴────────────────────────┘
 * ```
 *
 * `#position` is the slot up to which all slots were sent or skipped. It never decreases, so a clock that is
 * set back repeats no slot. A slot that comes after it is due when the wall clock has reached it.
 *
 * Several replicas send the same slot with the same id, and the engine stores the first. The engine forgets
 * ids in time, so a replica that finds a missed slot reads the record before it sends: others may have sent
 * the slot long ago.
 */
export class CronRun<T, R> {
  readonly #config: CronRunConfig<T, R>;
  readonly #context: LoopContext;
  readonly #maxSlots: number;
  readonly #untilEmpty: boolean;
  #position: number | undefined;
  /** The first slot after the position, once it is known. */
  #next = -Infinity;
  #last: number | undefined;
  #failures = 0;
  #handled = 0;
  #isBehind = false;

  constructor(config: CronRunConfig<T, R>, context: LoopContext, options: RunOptions) {
    const { maxIterations = Infinity, untilEmpty = false } = options;
    this.#config = config;
    this.#context = context;
    this.#maxSlots = maxIterations;
    this.#untilEmpty = untilEmpty;
  }

  /** False while the engine fails, and before the first answer. */
  get ready(): boolean {
    return this.#failures === 0 && this.#position !== undefined;
  }

  /** The slot up to which all slots were sent or skipped. */
  get position(): number | undefined {
    return this.#position;
  }

  /** The last slot that this run sent, or that it found sent. */
  get last(): number | undefined {
    return this.#last;
  }

  /** Sends slots until the stop. */
  async execute(): Promise<void> {
    const { admission } = this.#config;
    const { stopping, signal, beat } = this.#context;
    while (this.#handled < this.#maxSlots) {
      await admission(stopping);
      if (stopping.aborted) return;
      let pauseMs: number;
      try {
        pauseMs = await abortable(this.#sendDue(), signal);
        this.#failures = 0;
        if (this.#untilEmpty) return;
      } catch (error) {
        if (signal.aborted) return;
        pauseMs = this.#pauseAfter(error);
      }
      if (stopping.aborted || this.#handled >= this.#maxSlots) return;
      await this.#sleep(pauseMs);
      beat();
    }
  }

  /** Sends the slots that are due. Returns the time until the next one, in milliseconds. */
  async #sendDue(): Promise<number> {
    const { clock, name, record, track, untrack } = this.#config;
    if (clock.now() < this.#next) return this.#untilNext();
    const work = track({ id: `slots of ${name}`, since: clock.monotonic() });
    try {
      this.#position ??= await record?.begin(clock.now()) ?? clock.now();
      const now = clock.now();
      let due = await this.#due(now);
      if (record !== undefined && this.#isMissed(due.skipped ?? due.slots[0], now)) {
        this.#position = Math.max(this.#position, await record.read() ?? 0);
        due = await this.#due(now);
      }
      await this.#send(due);
      this.#next = this.#slotAfter(this.#position);
    } finally {
      untrack(work);
    }
    return this.#untilNext();
  }

  async #send({ slots, skipped }: DueSlots): Promise<void> {
    const { record, log, name, catchUp } = this.#config;
    if (skipped !== undefined) {
      log.warn("slots skipped", {
        loop: name,
        catchUp,
        after: isoTime(this.#position!),
        until: isoTime(skipped),
      });
      this.#position = skipped;
    }
    // After a failure one by one: a full mailbox may have no room for more.
    const size = this.#failures > 0 ? 1 : BATCH;
    for (let from = 0; from < slots.length; from += size) {
      if (this.#context.stopping.aborted || this.#handled >= this.#maxSlots) return;
      const batch = slots.slice(from, from + Math.min(size, this.#maxSlots - this.#handled));
      const last = batch.at(-1)!;
      await this.#store(batch);
      await record?.save(last);
      this.#position = this.#last = last;
      this.#handled += batch.length;
      this.#context.beat();
    }
  }

  async #store(batch: readonly number[]): Promise<void> {
    const { mailbox, name, dedupMs, envelope } = this.#config;
    const slots = batch.map((at) => ({ name, at: new Date(at), id: slotId(name, at) }));
    const bodies = slots.map((slot) => this.#bodyOf(slot));
    await mailbox.sendMany(bodies, (_, i) => ({ ...envelope, id: slots[i]!.id, dedupMs }));
  }

  #bodyOf(slot: CronSlot): T {
    try {
      return this.#config.body(slot);
    } catch (cause) {
      throw new BodyError("The body of a slot cannot be made", { cause });
    }
  }

  /** Finds the slots between the position and now, latest first: there may be millions. */
  async #due(now: number): Promise<DueSlots> {
    const { schedule, catchUp, clock } = this.#config;
    const turns = EventLoopYield.of(clock);
    const position = this.#position!;
    const slots: number[] = [];
    let at = schedule.latest(new Date(now))?.getTime() ?? -Infinity;
    while (at > position) {
      const isWanted = catchUp === "all"
        ? slots.length < MAX_CATCH_UP
        : !this.#isMissed(at, now) || catchUp === "last" && slots.length === 0;
      if (!isWanted) break;
      slots.push(at);
      at = schedule.latest(new Date(at - 1))?.getTime() ?? -Infinity;
      const nextTurn = turns.next();
      if (nextTurn !== undefined) await nextTurn;
    }
    return { slots: slots.reverse(), skipped: at > position ? at : undefined };
  }

  #isMissed(slot: number | undefined, now: number): boolean {
    return slot !== undefined && now - slot > MISSED_AFTER_MS;
  }

  #untilNext(): number {
    const { clock, log, name } = this.#config;
    const now = clock.now();
    const position = this.#position!;
    const isBehind = position - now > MISSED_AFTER_MS;
    if (isBehind && !this.#isBehind) {
      log.warn("clock is behind the last slot; no slot is sent until it has caught up", {
        loop: name,
        last: isoTime(position),
        now: isoTime(now),
      });
    }
    this.#isBehind = isBehind;
    return Math.max(0, this.#next - now);
  }

  #slotAfter(time: number): number {
    return this.#config.schedule.next(new Date(time))?.getTime() ?? Infinity;
  }

  /** Logs the failures number 1, 2, 4, 8 and so on, and returns the pause. Throws what no retry repairs. */
  #pauseAfter(error: unknown): number {
    const { log, name, mailbox, random } = this.#config;
    if (error instanceof BodyError) throw error.cause;
    const isInvalid = error instanceof TypeError || error instanceof RangeError;
    if (isInvalid || FATAL.some((it) => isMailboxError(error, it))) throw error;
    const failures = ++this.#failures;
    if (Number.isInteger(Math.log2(failures))) {
      log.warn("slots could not be sent; trying again", {
        loop: name,
        mailbox: mailbox.name,
        failures,
        error,
      });
    }
    return backoffMs(failures, PAUSE_MS.min, PAUSE_MS.max, random);
  }

  async #sleep(ms: number): Promise<void> {
    const { clock, rest } = this.#config;
    rest();
    // Timers may fire a little early; 1 ms avoids a busy loop until the slot.
    const pieceMs = Math.max(1, Math.min(ms, MAX_SLEEP_MS));
    await clock.sleep(pieceMs, { signal: this.#context.stopping }).catch(() => {
      // A stop began.
    });
  }
}
