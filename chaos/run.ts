// One run: an engine, a mailbox, workers and a sender, with faults or as a rolling deploy.

import { setTimeout as sleep } from "node:timers/promises";
import type { Mailbox } from "../mod.ts";
import { DEFAULT_VISIBILITY_TIMEOUT_MS } from "../src/mailbox/mailbox.ts";
import { Canceller } from "./_canceller.ts";
import { checksOf } from "./_checks.ts";
import { Faults, type FaultTimes } from "./_faults.ts";
import type { ChaosResult } from "./_result.ts";
import { hashOf, poisonIdsOf, scheduleOf } from "./_schedule.ts";
import { CONCURRENCY, type Job, Sender } from "./_sender.ts";
import { Setup } from "./_setup.ts";
import { type ChaosOptions, UnsupportedError } from "./options.ts";

/** How long a run waits at its end until all messages are handled. */
const SETTLE_MS = 60_000;

/** With faults, leases are short, so that the messages of killed workers come back soon. */
const SHORT_LEASE_MS = 2_000;

/** When workers stop gracefully, no lease may expire. */
const GRACEFUL_LEASE_MS = 20_000;

/** The handler of every n-th message takes longer than a short lease. Prime, so that any key has such ones. */
const SLOW_EVERY = 211;

/** The other handlers keep the workers busy for this share of the time, so that faults hit them. */
const BUSY_SHARE = 0.5;

/** Less than the default, so that fewer workers have to die. */
const POISON_MAX_DELIVERIES = 5;

/** How long a poison message may take to end so many workers, one after the other. */
const POISON_MS = 60_000;

/** Sends messages to workers and injects faults, until all messages are handled. */
export async function runChaos(options: ChaosOptions): Promise<ChaosResult> {
  const { engine, messages, seconds, workers: count, faults: kinds, seed, keys } = options;
  const poison = poisonIdsOf(seed, options.poison, messages);
  const graceful = poison.size === 0 && kinds.every((kind) => kind === "term" || kind === "pause");
  const typicalMs = Math.min(250, BUSY_SHARE * count * CONCURRENCY * 1_000 * seconds / messages);
  const slowMs = graceful ? 1_000 : 1.5 * SHORT_LEASE_MS;
  const visibilityTimeoutMs = options.longLeases
    ? DEFAULT_VISIBILITY_TIMEOUT_MS
    : graceful
    ? GRACEFUL_LEASE_MS
    : SHORT_LEASE_MS;
  await using setup = await Setup.start({
    engine,
    workers: count,
    visibilityTimeoutMs,
    prefetch: options.longLeases ? 0 : CONCURRENCY,
    steps: options.steps,
    ...(poison.size > 0 && { maxDeliveries: POISON_MAX_DELIVERIES }),
    cron: options.cron,
    prepare: (mailbox) => prepare(mailbox, options),
  });
  const { workers, outages, ledger, mailbox } = setup;
  const canceller = new Canceller({
    mailbox,
    ledger,
    seed,
    share: options.cancels,
    except: poison,
  });
  const sender = new Sender(mailbox, {
    messages,
    keys,
    poison,
    onSent: (id) => canceller.sent(id),
    overMs: seconds * 1_000,
    limitMs: SETTLE_MS,
    maxBacklog: 5_000,
    workMs: (n) => n % SLOW_EVERY === 0 ? slowMs : 2 * typicalMs * (n * 37 % 100) / 100,
  }, () => ledger.finished);
  const perSecond = options.faultsPerSecond;
  const schedule = scheduleOf({ seed, kinds, ms: seconds * 1_000, perSecond });
  const times = timesOf(options);
  const pause = (ms: number) => setup.pause(ms);
  const faults = new Faults({ schedule, workers, outages, times, pause });
  const sending = sender.run();
  await faults.run();
  await sending;
  await canceller.finish();
  await setup.settle(sender.sent, settleMsOf(options));
  return await setup.finish(sender.sent, poison, {
    title: `${engine} with faults: ${count} workers on Node, Bun and Deno` +
      (keys > 0 ? `, ${keys} keys` : "") + (options.longLeases ? ", leases of 300 s" : ""),
    seed,
    schedule: hashOf(schedule),
    faults: faults.counts,
    skipped: faults.skipped,
    graceful,
  }, (remains) => {
    const { pauses, outages: { crashes }, undoneMs } = setup;
    return checksOf(options, { ledger, pauses, crashes, undoneMs, poison, ...remains });
  });
}

/** Sets the rate limit, and refuses options that the engine does not support. */
async function prepare(mailbox: Mailbox<Job>, options: ChaosOptions): Promise<void> {
  const { engine, keys, cancels, longLeases, limit, cron, faults } = options;
  // Some engines know only after a receive whether they can notice dead workers.
  if (longLeases) await mailbox.receive();
  const { capabilities } = mailbox;
  const refused = [
    keys > 0 && !capabilities.keys && "--keys",
    cancels > 0 && !capabilities.lookup && "--cancels",
    longLeases && !capabilities.ownerDetection && "--long-leases",
    limit > 0 && !capabilities.rateLimit && "--limit",
    cron && !capabilities.dedupWindow && "--cron",
    faults.includes("pause") && !capabilities.pause && "--faults pause",
  ].find((option) => option !== false);
  if (refused !== undefined) throw new UnsupportedError(engine, refused);
  if (limit > 0) await mailbox.rateLimit({ max: limit, perMs: 1_000 });
}

/** Suspensions are longer than short leases, and much shorter than long ones. */
function timesOf({ longLeases }: ChaosOptions): FaultTimes {
  return {
    suspendMs: (share) => longLeases ? 3_000 + 5_000 * share : SHORT_LEASE_MS * (1.1 + share),
    freezeMs: (share) => SHORT_LEASE_MS * (0.2 + 1.5 * share),
  };
}

/** Returns how long the messages may take that are left when the last fault is over. */
function settleMsOf(
  { seconds, messages, longLeases, poison, limit, faults }: ChaosOptions,
): number {
  // A server that was restarted cannot tell whether the workers of before are dead.
  const waitsForLeases = longLeases && (faults.includes("restart") || faults.includes("freeze"));
  return SETTLE_MS + seconds * 1_000 + (waitsForLeases ? DEFAULT_VISIBILITY_TIMEOUT_MS : 0) +
    poison * POISON_MS + (limit > 0 ? messages / limit * 1_000 : 0);
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
  await using setup = await Setup.start({
    engine,
    workers: count,
    visibilityTimeoutMs: GRACEFUL_LEASE_MS,
    prefetch: CONCURRENCY,
    steps: false,
  });
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
  return await setup.finish(
    sender.sent,
    new Set(),
    {
      title: `${engine}: ${count} workers on Node, Bun and Deno, replaced one by one under load`,
      seed,
      faults: { term: count },
      graceful: true,
    },
    () => ({
      remarks: [`messages/s  ${shown}: ${Math.max(0, dip).toFixed(0)} % less during the deploy`],
    }),
  );
}
