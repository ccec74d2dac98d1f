// One run: an engine, a mailbox, workers and a sender, with faults or as a rolling deploy.

import { setTimeout as sleep } from "node:timers/promises";
import { type Mailbox, openMailbox, silentLog } from "../mod.ts";
import { seededRandom } from "../src/random.ts";
import { Faults, Outages } from "./_faults.ts";
import { Canceller } from "./_canceller.ts";
import { type ChaosResult, Ledger, type MessageHistory } from "./_ledger.ts";
import { type Handling, type OrderFaults, orderFaultsOf } from "./_order.ts";
import { CONCURRENCY, type Job, Sender } from "./_sender.ts";
import { Workers } from "./_workers.ts";
import type { ChaosOptions } from "./options.ts";
import { type ChaosEngine, loadSite } from "./sites.ts";

/** How long a run waits at its end until all messages are handled. */
const SETTLE_MS = 60_000;

/** With faults, leases are short, so that the messages of killed workers come back soon. */
const SHORT_LEASE_MS = 2_000;
const LONG_LEASE_MS = 20_000;

/** The handler of every n-th message takes longer than a short lease. Prime, so that any key has such ones. */
const SLOW_EVERY = 211;

/** The other handlers keep the workers busy for this share of the time, so that faults hit them. */
const BUSY_SHARE = 0.5;

/** Sends messages to workers and injects faults, until all messages are handled. */
export async function runChaos(options: ChaosOptions): Promise<ChaosResult> {
  const { engine, messages, seconds, workers: count, faults: kinds, seed } = options;
  const graceful = kinds.every((kind) => kind === "term");
  const leaseMs = graceful ? LONG_LEASE_MS : SHORT_LEASE_MS;
  const typicalMs = Math.min(250, BUSY_SHARE * count * CONCURRENCY * 1_000 * seconds / messages);
  const slowMs = graceful ? 1_000 : 1.5 * SHORT_LEASE_MS;
  await using setup = await Setup.start(engine, leaseMs, count);
  const { workers, outages, ledger, mailbox } = setup;
  const { keys, cancels } = options;
  const { capabilities } = mailbox;
  if (keys > 0 && !capabilities.keys || cancels > 0 && !capabilities.lookup) {
    throw new RangeError(`Invalid --keys or --cancels: ${engine} does not support it`);
  }
  const canceller = new Canceller({
    mailbox,
    ledger,
    random: seededRandom(seed + 1),
    share: cancels,
  });
  const sender = new Sender(mailbox, {
    messages,
    keys,
    onSent: (id) => canceller.sent(id),
    overMs: seconds * 1_000,
    limitMs: SETTLE_MS,
    maxBacklog: 5_000,
    workMs: (n) => n % SLOW_EVERY === 0 ? slowMs : 2 * typicalMs * (n * 37 % 100) / 100,
  }, () => ledger.finished);
  const faults = new Faults({ kinds, random: seededRandom(seed), workers, outages, leaseMs });
  const sending = sender.run();
  await faults.run(seconds * 1_000, options.faultsPerSecond);
  await sending;
  await canceller.finish();
  await setup.settle(sender.sent, SETTLE_MS + seconds * 1_000);
  const keepsLeases = kinds.every((kind) => kind === "term" || kind === "kill");
  return await setup.finish(sender.sent, {
    title: `${engine} with faults: ${count} workers on Node, Bun and Deno` +
      (keys > 0 ? `, ${keys} keys` : ""),
    seed,
    faults: faults.counts,
    graceful,
    remarks: cancels > 0 ? [abortRemark(ledger)] : [],
  }, keys > 0 ? (handlings) => orderFaultsOf(handlings, keys, keepsLeases) : undefined);
}

/** Tells how soon handlers heard that their message was cancelled. */
function abortRemark({ abortMs }: Ledger): string {
  const at = (share: number) => abortMs[Math.min(abortMs.length - 1, abortMs.length * share | 0)];
  return `aborted     ${abortMs.length} handlers; median ${at(0.5)} ms, p99 ${
    at(0.99)
  } ms after cancel`;
}

/** Handlers of a rolling deploy only wait, so that the number of workers limits the throughput. */
const ROLLING_WORK_MS = 250;

/** New processes are slow: measuring begins when each worker has filled its slots this often. */
const WARM_ROUNDS = 5;

/** The share of the time that is measured before and after the deploy. */
const QUIET_SHARE = 0.25;

/** Replaces the workers one by one under load. A new worker works before the old one is stopped. */
export async function runRolling(options: ChaosOptions): Promise<ChaosResult> {
  const { engine, messages, seconds, workers: count, seed } = options;
  await using setup = await Setup.start(engine, LONG_LEASE_MS, count);
  const { workers, ledger, mailbox } = setup;
  const sender = new Sender(mailbox, {
    messages: Number.MAX_SAFE_INTEGER,
    overMs: 0,
    limitMs: SETTLE_MS,
    maxBacklog: messages,
    keys: options.keys,
    onSent: () => {},
    workMs: () => ROLLING_WORK_MS,
  }, () => ledger.completed);
  const sending = sender.run();
  const rates = new Map<string, number>();
  const measure = async (phase: string, act: () => Promise<void>) => {
    const from = performance.now();
    const before = ledger.completed;
    await act();
    rates.set(phase, (ledger.completed - before) / (performance.now() - from) * 1_000);
  };
  const warm = count * CONCURRENCY * WARM_ROUNDS;
  while (ledger.completed < warm) await sleep(50);
  const quietMs = seconds * 1_000 * QUIET_SHARE;
  await measure("before", () => sleep(quietMs));
  await measure("during", async () => {
    for (const old of workers.working) {
      await workers.add().ready;
      await workers.stop(old);
    }
  });
  await measure("after", () => sleep(quietMs));
  sender.stop();
  await sending;
  await setup.settle(sender.sent, SETTLE_MS);
  const [before = 0, during = 0, after = 0] = rates.values();
  const shown = [...rates].map(([phase, rate]) => `${phase} ${rate.toFixed(0)}`).join(", ");
  const dip = 100 * (1 - during / ((before + after) / 2));
  return await setup.finish(sender.sent, {
    title: `${engine}: ${count} workers on Node, Bun and Deno, replaced one by one under load`,
    seed,
    faults: { term: count },
    graceful: true,
    remarks: [`messages/s  ${shown}: ${Math.max(0, dip).toFixed(0)} % less during the deploy`],
  });
}

/**
 * When the mailbox is empty and messages are not completed, the run waits this long for output of
 * workers that is still in pipes. Then the messages are lost.
 */
const OUTPUT_DELAY_MS = 3_000;

/** An engine with a mailbox, workers, and the ledger of their work. */
class Setup implements AsyncDisposable {
  readonly ledger: Ledger = new Ledger();
  readonly mailbox: Mailbox<Job>;
  readonly workers: Workers;
  readonly outages: Outages;
  readonly #engine: ChaosEngine;
  #startedAt = 0;

  private constructor(engine: ChaosEngine, url: string, mailbox: Mailbox<Job>, leaseMs: number) {
    this.#engine = engine;
    this.mailbox = mailbox;
    this.outages = new Outages(engine);
    const { ledger } = this;
    this.workers = new Workers({ url, leaseMs, ledger, disturbed: () => this.outages.recent });
  }

  /** Starts the engine and `count` workers. */
  static async start(name: string, leaseMs: number, count: number): Promise<Setup> {
    const engine = await (await loadSite(name)).start();
    try {
      const url = `${engine.url}?queue=chaos`;
      const mailbox = await openMailbox<Job>(url, { log: silentLog });
      const setup = new Setup(engine, url, mailbox, leaseMs);
      await setup.workers.start(count);
      setup.#startedAt = performance.now();
      return setup;
    } catch (error) {
      await engine[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Waits until all messages are completed or lost, at most `limitMs` milliseconds. */
  async settle(sent: number, limitMs: number): Promise<void> {
    const { ledger } = this;
    let lostAt = Infinity;
    for (const endsAt = performance.now() + limitMs; performance.now() < endsAt;) {
      const { left, deadLetters } = await this.#count();
      const empty = left + deadLetters === 0;
      if (empty && ledger.finished >= sent) return;
      lostAt = empty ? Math.min(lostAt, performance.now() + OUTPUT_DELAY_MS) : Infinity;
      if (performance.now() > lostAt) return;
      await sleep(100);
    }
  }

  /** Stops the workers and returns the result. */
  async finish(
    sent: number,
    more: Pick<ChaosResult, "title" | "seed" | "faults" | "graceful" | "remarks">,
    checkOrder?: (handlings: readonly Handling[]) => OrderFaults,
  ): Promise<ChaosResult> {
    const { ledger, workers } = this;
    const ms = performance.now() - this.#startedAt;
    await workers.stopAll();
    const histories = (ids: Iterable<string>): MessageHistory[] =>
      [...ids].map((id) => ({ id, history: ledger.history(id) }));
    const order = checkOrder?.(ledger.handlings);
    return {
      ...more,
      ...await this.#count(),
      order: order && {
        inversions: histories(order.inversions),
        overlaps: histories(order.overlaps),
      },
      cancelled: ledger.cancelled.size,
      revived: histories(ledger.revived),
      sent,
      ms,
      completed: ledger.completed,
      lost: histories(ledger.missing(sent)),
      duplicated: histories(ledger.duplicated),
      repeated: histories(ledger.repeated),
      failures: workers.failures,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.workers[Symbol.asyncDispose]();
    await this.mailbox.close();
    await this.#engine[Symbol.asyncDispose]();
  }

  /** Counts the messages and the dead letters. Repeats until the engine answers. */
  async #count(): Promise<Pick<ChaosResult, "left" | "deadLetters">> {
    for (;;) {
      try {
        const left = await this.mailbox.approximateCount();
        return { left, deadLetters: await this.mailbox.deadLetters?.approximateCount() ?? 0 };
      } catch {
        await sleep(100);
      }
    }
  }
}
