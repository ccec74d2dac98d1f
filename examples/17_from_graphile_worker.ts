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

/** The unchanged tasks. */
const taskList: Record<string, (payload: unknown, { job }: { job: { id: string } }) => unknown> = {
  send_mail: async (payload, { job }) => {
    await systemClock.sleep(100);
    console.log(`${job.id}: mail to ${(payload as { to: string }).to}`);
  },
  water_plants: (_, { job }) => console.log(`${job.id}: the plants are watered`),
};

// On PostgreSQL: await openMailbox<Job>("postgres://localhost/app?queue=jobs")
const jobs = new InMemoryMailbox<{ task: string; payload: unknown }>("jobs");
await jobs.send({ task: "send_mail", payload: { to: "barbara" } }, { id: "new-1" });

const worker = new MailboxLoop({
  mailbox: jobs,
  concurrency: 2,
  deadLetter: { maxDeliveries: 25, include: [RangeError] },
  backoff: { minMs: 3_000, maxMs: 6 * 3_600_000 },
  handler: ({ id, body: { task, payload } }) => {
    const perform = taskList[task];
    if (!perform) throw new RangeError(`there is no task ${task}`); // is not retried
    return perform(payload, { job: { id } });
  },
});

/** Replaces a line of a crontab. The first of six fields is the second. */
const cron = new CronLoop({
  name: "plants",
  schedule: "* * * * * *",
  mailbox: jobs,
  body: { task: "water_plants", payload: {} },
  catchUp: "all", // Graphile Worker: fill
});

// Graphile Worker: await run({ connectionString, taskList, noHandleSignals: true }). Here: a simple queue.
const job = (to: string) => taskList["send_mail"]!({ to }, { job: { id: `old-${to}` } });
const runner = standIn(["ada", "grace"], job);
const old = new OldWorkerLoop("old jobs", {
  run: () => runner.worker.run(), // runner.promise
  stop: () => runner.worker.close(), // runner.stop()
  left: async () => (await runner.queue.getJobCounts())["waiting"] ?? 0, // with attempts, or locked
  onEmpty: () => console.log("the old tables are empty"),
  everyMs: 100, // use seconds in a real program
});
await new LoopGroup([old, cron, worker], { shutdownTimeoutMs: 10_000 }).main();
