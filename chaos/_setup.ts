// An engine with a mailbox, workers, and the ledger of their work.

import { setTimeout as sleep } from "node:timers/promises";
import { type Mailbox, openMailbox, silentLog } from "../mod.ts";
import { MAX_BATCH } from "../src/mailbox/mailbox.ts";
import type { Pause, Remains } from "./_checks.ts";
import { SlotReader } from "./_cron.ts";
import { Outages } from "./_faults.ts";
import { Ledger } from "./_ledger.ts";
import type { ChaosResult } from "./_result.ts";
import type { Job } from "./_sender.ts";
import { Workers, type WorkerSettings } from "./_workers.ts";
import { type ChaosEngine, loadSite } from "./sites.ts";

/**
 * When the mailbox is empty and messages are not completed, the run waits this long for output of
 * workers that is still in pipes. Then the messages are lost.
 */
const OUTPUT_DELAY_MS = 3_000;

/** What a {@linkcode Setup} starts. */
export interface SetupOptions
  extends Omit<WorkerSettings, "url" | "cronUrl" | "shutdownTimeoutMs"> {
  /** The name of a site. */
  readonly engine: string;
  /** The number of workers. */
  readonly workers: number;
  /** True when each worker also runs a cron loop. */
  readonly cron?: boolean;
  /** Called with the empty mailbox before workers start. */
  readonly prepare?: (mailbox: Mailbox<Job>) => Promise<void>;
}

/** What a {@linkcode Setup} does not know of the result. */
export type ResultParts = Pick<
  ChaosResult,
  "title" | "seed" | "schedule" | "faults" | "skipped" | "graceful"
>;

/** The parts of a result that are known when all workers have ended. */
export type FinalParts = Partial<Pick<ChaosResult, "checks" | "remarks">>;

/** A cron loop may be so far behind when the workers are stopped, because its worker has just started. */
const SLOT_DELAY_MS = 5_000;

/** A running engine and its workers. */
export class Setup implements AsyncDisposable {
  readonly ledger: Ledger = new Ledger();
  readonly mailbox: Mailbox<Job>;
  readonly workers: Workers;
  readonly outages: Outages;
  /** The pauses that the engine has confirmed. */
  readonly pauses: Pause[] = [];
  /** A crash of the server may undo deliveries of so many milliseconds before it. */
  readonly undoneMs: number;
  readonly #engine: ChaosEngine;
  readonly #slots: SlotReader | undefined;
  #startedAt = 0;

  private constructor(
    engine: ChaosEngine,
    undoneMs: number,
    mailbox: Mailbox<Job>,
    slots: SlotReader | undefined,
    settings: Omit<WorkerSettings, "shutdownTimeoutMs">,
  ) {
    this.#engine = engine;
    this.undoneMs = undoneMs;
    this.#slots = slots;
    this.mailbox = mailbox;
    this.outages = new Outages(engine);
    const { ledger } = this;
    this.workers = new Workers({ settings, ledger, disturbed: () => this.outages.recent });
  }

  /** Starts the engine and its workers. */
  static async start(
    { engine: name, workers, cron = false, prepare, ...settings }: SetupOptions,
  ): Promise<Setup> {
    const { start, undoneMs = 0 } = await loadSite(name);
    const engine = await start();
    let mailbox: Mailbox<Job> | undefined;
    let slots: SlotReader | undefined;
    try {
      const url = `${engine.url}?queue=chaos`;
      mailbox = await openMailbox<Job>(url, { log: silentLog });
      await prepare?.(mailbox);
      const cronUrl = `${engine.url}?queue=slots`;
      if (cron) slots = new SlotReader(await openMailbox<number>(cronUrl, { log: silentLog }));
      const urls = { url, ...(cron && { cronUrl }) };
      const setup = new Setup(engine, undoneMs, mailbox, slots, { ...settings, ...urls });
      await setup.workers.start(workers);
      setup.#startedAt = performance.now();
      return setup;
    } catch (error) {
      await slots?.close();
      await mailbox?.close();
      await engine[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Pauses the queue, and records the pause when the engine has confirmed it. */
  async pause(forMs: number): Promise<void> {
    const endsAt = Date.now() + forMs;
    await this.mailbox.pause({ forMs });
    this.pauses.push({ confirmedAt: Date.now(), endsAt });
  }

  /** Waits until all messages are completed, dead-lettered or lost, at most `limitMs` milliseconds. */
  async settle(sent: number, limitMs: number): Promise<void> {
    const { ledger } = this;
    let lostAt = Infinity;
    for (const endsAt = performance.now() + limitMs; performance.now() < endsAt;) {
      const { left, deadLetters } = await this.#count();
      if (left === 0 && ledger.finished + deadLetters >= sent) return;
      lostAt = left === 0 ? Math.min(lostAt, performance.now() + OUTPUT_DELAY_MS) : Infinity;
      if (performance.now() > lostAt) return;
      await sleep(100);
    }
  }

  /** Stops the workers and returns the result. Only messages of `poison` may be dead letters. */
  async finish(
    sent: number,
    poison: ReadonlySet<string>,
    parts: ResultParts,
    conclude: (remains: Remains) => FinalParts = () => ({}),
  ): Promise<ChaosResult> {
    const { ledger, workers } = this;
    const ms = performance.now() - this.#startedAt;
    const slotsUntil = Date.now() - SLOT_DELAY_MS;
    await workers.stopAll();
    await this.#slots?.finish();
    const { left } = await this.#count();
    const dead = new Set(await this.#deadLetterIds());
    return {
      ...parts,
      sent,
      ms,
      left,
      completed: ledger.completed,
      cancelled: ledger.cancelled.size,
      lost: ledger.histories(ledger.missing(sent).filter((id) => !poison.has(id) && !dead.has(id))),
      deadLetters: ledger.histories([...dead].filter((id) => !poison.has(id))),
      duplicated: ledger.histories(ledger.duplicated),
      repeated: ledger.histories(ledger.repeated),
      failures: workers.failures,
      remarks: [],
      checks: [],
      ...conclude({ deadLetters: dead, slots: this.#slots?.deliveries, slotsUntil }),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.workers[Symbol.asyncDispose]();
    await this.#slots?.close();
    await this.mailbox.close();
    await this.#engine[Symbol.asyncDispose]();
  }

  /** Returns the ids of the dead letters. */
  async #deadLetterIds(): Promise<string[]> {
    const { deadLetters } = this.mailbox;
    const peeked = await untilAnswered(async () => await deadLetters?.peek?.(MAX_BATCH) ?? []);
    return peeked.map(({ body }) => body.id);
  }

  /** Counts the messages and the dead letters. */
  async #count(): Promise<{ readonly left: number; readonly deadLetters: number }> {
    return await untilAnswered(async () => ({
      left: await this.mailbox.approximateCount(),
      deadLetters: await this.mailbox.deadLetters?.approximateCount() ?? 0,
    }));
  }
}

/** Repeats a call until the engine answers. */
async function untilAnswered<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch {
      await sleep(100);
    }
  }
}
