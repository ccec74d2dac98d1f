import type { ChaosOptions } from "./options.ts";
import { Faults } from "./_faults.ts";
import { SeededRandom } from "./_random.ts";
import type { ChaosResult } from "./_result.ts";
import { CONCURRENCY, Sender } from "./_sender.ts";
import { Stage } from "./_stage.ts";

/** Killed workers' messages come back soon; those of workers that are stopped well need no lease. */
const SHORT_LEASE_MS = 2_000;
const LONG_LEASE_MS = 20_000;

/** One piece of work in so many outlasts a short lease. */
const SLOW_EVERY = 200;

/** The others take so long that workers are busy for half of the time: then faults find them at work. */
const BUSY_SHARE = 0.5;

/** What is left after the faults is worked off within this, and as long again as they lasted. */
const SETTLE_MS = 60_000;

/** Messages, workers and faults, until all is done that was sent. */
export async function runChaos(options: ChaosOptions): Promise<ChaosResult> {
  const { engine, messages, seconds, workers, faults: kinds, seed, faultsPerSecond } = options;
  const gentle = kinds.every((kind) => kind === "term");
  const leaseMs = gentle ? LONG_LEASE_MS : SHORT_LEASE_MS;
  const typicalMs = Math.min(250, BUSY_SHARE * workers * CONCURRENCY * 1_000 * seconds / messages);
  const slowMs = gentle ? 1_000 : 1.5 * SHORT_LEASE_MS;
  await using stage = await Stage.start(engine, leaseMs, workers);
  const { crew, trouble, ledger, mailbox } = stage;
  const sender = new Sender(mailbox, {
    messages,
    overMs: seconds * 1_000,
    limitMs: SETTLE_MS,
    maxBacklog: 5_000,
    workMs: (n) => n % SLOW_EVERY === 0 ? slowMs : 2 * typicalMs * (n * 37 % 100) / 100,
  }, () => ledger.completed);
  const faults = new Faults(kinds, new SeededRandom(seed), crew, trouble, leaseMs);
  const sending = sender.run();
  await faults.run(seconds * 1_000, faultsPerSecond);
  await sending;
  await stage.settle(sender.sent, SETTLE_MS + seconds * 1_000);
  return await stage.finish(sender.sent, {
    title: `${engine} under fire: ${workers} workers on Node, Bun and Deno`,
    seed,
    faults: faults.counts,
    gentle,
    remarks: [],
  });
}
