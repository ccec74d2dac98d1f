/**
 * 17. Migrating from Graphile Worker. The tasks stay unchanged. docs/migrating.md has the table of options.
 *
 *     node examples/17_from_graphile_worker.ts
 *
 * Jobs in the old tables stay there until the old runner has handled them. Until then, both run in one group
 * with one task list. Remove the old runner when no program adds jobs there any more.
 */

import { InMemoryMailbox, LoopGroup, MailboxLoop, systemClock } from "../mod.ts";
import { CronLoop } from "../src/cron/mod.ts";
import { OldWorkerLoop } from "./_old_worker_loop.ts";
import { standIn } from "./_stand_in.ts";

/** The helpers that these tasks use. */
interface Helpers {
  readonly job: { readonly id: string; readonly attempts: number };
  readonly abortSignal: AbortSignal;
}

/** The unchanged tasks. */
const taskList: Record<string, (payload: unknown, helpers: Helpers) => Promise<void>> = {
  async send_mail(payload, { job, abortSignal }) {
    await systemClock.sleep(100, { signal: abortSignal });
    console.log(`${job.id}: mail to ${(payload as { to: string }).to}, attempt ${job.attempts}`);
  },
  async water_plants(_, { job, abortSignal }) {
    await systemClock.sleep(10, { signal: abortSignal });
    console.log(`${job.id}: the plants are watered`);
  },
};

/** A job that cannot succeed: it is dead-lettered immediately. */
class UnknownTaskError extends Error {}

// With PostgreSQL: await PostgresMailbox.open<Job>("postgres://localhost/app", { name: "jobs" })
const jobs = new InMemoryMailbox<{ task: string; payload: unknown }>("jobs");
await jobs.send({ task: "send_mail", payload: { to: "barbara" } }, { id: "new-1" });

const worker = new MailboxLoop({
  name: "jobs",
  mailbox: jobs,
  concurrency: 2,
  deadLetter: { maxDeliveries: 25, include: [UnknownTaskError] },
  backoff: { minMs: 3_000, maxMs: 6 * 3_600_000 },
  handler: ({ id, body: { task, payload } }, { attempt, signal }) => {
    const perform = taskList[task];
    if (perform === undefined) throw new UnknownTaskError(`there is no task ${task}`);
    return perform(payload, { job: { id, attempts: attempt }, abortSignal: signal });
  },
});

/** Replaces a line of a crontab. The first field is the second; leave it out for a line with minutes. */
const cron = new CronLoop({
  name: "plants",
  schedule: "* * * * * *",
  mailbox: jobs,
  body: { task: "water_plants", payload: {} },
  catchUp: "all", // Graphile Worker: fill
  stopOrder: -1,
});

// With Graphile Worker, whose signal handling must be off, this is
//
//     const runner = await run({ connectionString, taskList, noHandleSignals: true });
//     run: () => runner.promise,
//     stop: () => runner.stop(),
//     left: select count(*) from graphile_worker.jobs where attempts < max_attempts or locked_at is not null
const { queue, worker: runner } = standIn(["ada", "grace"], async (to) => {
  const helpers = {
    job: { id: `old-${to}`, attempts: 1 },
    abortSignal: new AbortController().signal,
  };
  await taskList["send_mail"]!({ to }, helpers);
});
const old = new OldWorkerLoop("old jobs", {
  run: () => runner.run(),
  stop: () => runner.close(),
  left: async () => (await queue.getJobCounts())["waiting"] ?? 0,
  onEmpty: () => console.log("the old tables are empty"),
  everyMs: 100, // use seconds in a real program
});

console.log("Press Ctrl+C when you have seen enough.");
const report = await new LoopGroup([old, cron, worker], { shutdownTimeoutMs: 10_000 }).run();
console.log(`\n${report}`);
