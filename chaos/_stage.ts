import { setTimeout as sleep } from "node:timers/promises";
import { type Mailbox, openMailbox, silentLog } from "../mod.ts";
import { Crew } from "./_crew.ts";
import { type EngineUnderFire, startEngine } from "./_engines.ts";
import { EngineTrouble } from "./_faults.ts";
import { Ledger } from "./_ledger.ts";
import type { EngineName } from "./options.ts";
import type { ChaosResult, Missing } from "./_result.ts";
import type { Job } from "./_sender.ts";

/** An empty mailbox with work missing: nothing can bring it back, once lines under way have come. */
const NO_HOPE_MS = 3_000;

/** An engine, the mailbox on it, the workers, and the ledger of what they do. */
export class Stage implements AsyncDisposable {
  readonly ledger: Ledger = new Ledger();
  readonly mailbox: Mailbox<Job>;
  readonly crew: Crew;
  readonly trouble: EngineTrouble;
  readonly #engine: EngineUnderFire;
  #startedAt = 0;

  private constructor(engine: EngineUnderFire, mailbox: Mailbox<Job>, leaseMs: number) {
    this.#engine = engine;
    this.mailbox = mailbox;
    this.trouble = new EngineTrouble(engine);
    this.crew = new Crew({
      url: engine.url,
      leaseMs,
      ledger: this.ledger,
      troubled: () => this.trouble.present,
    });
  }

  /** Starts all of it, with so many workers. */
  static async start(name: EngineName, leaseMs: number, workers: number): Promise<Stage> {
    const engine = await startEngine(name);
    try {
      const mailbox = await openMailbox<Job>(engine.url, { log: silentLog });
      const stage = new Stage(engine, mailbox, leaseMs);
      await stage.crew.start(workers);
      stage.#startedAt = performance.now();
      return stage;
    } catch (error) {
      await engine[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Waits until all is done that was sent, there is no hope for it, or the time is up. */
  async settle(sent: number, limitMs: number): Promise<void> {
    const { ledger } = this;
    let hopelessAt = Infinity;
    for (const endsAt = performance.now() + limitMs; performance.now() < endsAt;) {
      const empty = await this.#counts() === "0 0";
      if (empty && ledger.completed >= sent) return;
      hopelessAt = empty ? Math.min(hopelessAt, performance.now() + NO_HOPE_MS) : Infinity;
      if (performance.now() > hopelessAt) return;
      await sleep(100);
    }
  }

  /** Stops the workers and tells what it all came to. */
  async finish(
    sent: number,
    more: Pick<ChaosResult, "title" | "seed" | "faults" | "gentle" | "remarks">,
  ): Promise<ChaosResult> {
    const { ledger, crew } = this;
    const ms = performance.now() - this.#startedAt;
    await crew.stopAll();
    const [left, deadLetters] = (await this.#counts()).split(" ").map(Number);
    const told = (ids: Iterable<string>): Missing[] =>
      [...ids].map((id) => ({ id, history: ledger.history(id) }));
    return {
      ...more,
      sent,
      ms,
      left: left ?? NaN,
      deadLetters: deadLetters ?? NaN,
      completed: ledger.completed,
      lost: told(ledger.missing(sent)),
      duplicated: told(ledger.duplicated),
      repeated: told(ledger.repeated),
      failures: crew.failures,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.crew[Symbol.asyncDispose]();
    await this.mailbox.close();
    await this.#engine[Symbol.asyncDispose]();
  }

  /** What is in the mailbox and with its dead letters, as soon as the engine tells. */
  async #counts(): Promise<string> {
    for (;;) {
      try {
        const left = await this.mailbox.approximateCount();
        return `${left} ${await this.mailbox.deadLetters?.approximateCount() ?? 0}`;
      } catch {
        await sleep(100);
      }
    }
  }
}
