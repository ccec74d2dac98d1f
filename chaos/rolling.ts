import { setTimeout as sleep } from "node:timers/promises";
import type { ChaosOptions } from "./options.ts";
import type { ChaosResult } from "./_result.ts";
import { CONCURRENCY, Sender } from "./_sender.ts";
import { Stage } from "./_stage.ts";

const LEASE_MS = 20_000;
const SETTLE_MS = 60_000;

/** Long enough that workers wait rather than compute: what counts is how many of them there are. */
const WORK_MS = 250;

/** Young processes are slow: each has worked on its share this often before anything is measured. */
const WARM_ROUNDS = 5;

/** How long is measured before and after, as a share of the whole. */
const QUIET_SHARE = 0.25;

/**
 * A deploy: every worker is replaced, one by one, while there is always work. The new one works before
 * the old one is told to stop, as platforms do it.
 */
export async function runRolling(options: ChaosOptions): Promise<ChaosResult> {
  const { engine, messages, seconds, workers, seed } = options;
  await using stage = await Stage.start(engine, LEASE_MS, workers);
  const { crew, ledger, mailbox } = stage;
  const sender = new Sender(mailbox, {
    messages: Number.MAX_SAFE_INTEGER,
    overMs: 0,
    limitMs: SETTLE_MS,
    maxBacklog: messages,
    workMs: () => WORK_MS,
  }, () => ledger.completed);
  const sending = sender.run();
  const rates = new Map<string, number>();
  const measure = async (phase: string, act: () => Promise<void>) => {
    const from = performance.now();
    const before = ledger.completed;
    await act();
    rates.set(phase, (ledger.completed - before) / (performance.now() - from) * 1_000);
  };
  const warm = workers * CONCURRENCY * WARM_ROUNDS;
  while (ledger.completed < warm) await sleep(50);
  const quietMs = seconds * 1_000 * QUIET_SHARE;
  await measure("before", () => sleep(quietMs));
  await measure("during", async () => {
    for (const old of crew.working) {
      await crew.hire().ready;
      await crew.stop(old);
    }
  });
  await measure("after", () => sleep(quietMs));
  sender.stop();
  await sending;
  await stage.settle(sender.sent, SETTLE_MS);
  const [before = 0, during = 0, after = 0] = rates.values();
  const told = [...rates].map(([phase, rate]) => `${phase} ${rate.toFixed(0)}`).join(", ");
  const dip = 100 * (1 - during / ((before + after) / 2));
  return await stage.finish(sender.sent, {
    title: `${engine}: ${workers} workers on Node, Bun and Deno, replaced one by one under load`,
    seed,
    faults: { term: workers },
    gentle: true,
    remarks: [`messages/s  ${told}: ${Math.max(0, dip).toFixed(0)} % less during it`],
  });
}
