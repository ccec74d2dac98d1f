/**
 * 17. Moving over from Graphile Worker. The tasks stay as they are.
 *
 *     node examples/17_from_graphile_worker.ts
 *
 * | there                                         | here                                                   |
 * | --------------------------------------------- | ------------------------------------------------------ |
 * | `run({ taskList })`                           | `new MailboxLoop({ mailbox, handler })`                |
 * | `addJob("send_mail", payload)`                | `jobs.send({ task: "send_mail", payload })`            |
 * | `add_job` in SQL, in your own transaction     | not here: `send` is a transaction of its own           |
 * | `concurrency`                                 | `concurrency`                                          |
 * | `maxAttempts` of a job, 25 unless told        | `deadLetter: { maxDeliveries }` of a loop              |
 * | a pause of eⁿ seconds, 6 hours at most        | `backoff: { minMs, maxMs }`, which doubles             |
 * | failed for good: stays in the table           | `mailbox.deadLetters`, `redrive(mailbox)`              |
 * | `runAt`                                       | `delayMs`, 12 hours at most                            |
 * | `jobKey`, which replaces the job              | `id`, which leaves the one that is there as it is      |
 * | `queueName`: one after the other, everywhere  | a mailbox with `concurrency: 1`, in one process        |
 * | a job of a dead worker: again after 4 hours   | `visibilityTimeoutMs`, 5 minutes unless told           |
 * | `helpers.abortSignal`, 5 s after a stop began | `signal`, near the end of `shutdownTimeoutMs`          |
 * | `crontab`                                     | a `StepLoop`, as below; what was missed is not made up |
 * | `priority`, `flags`, `forbiddenFlags`         | not here: use a mailbox for each kind                  |
 *
 * The jobs in the old tables stay there, and are worked off from there: for as long as that takes, both
 * run in one group, with one task list. Then, when nobody adds jobs there any more, remove the old runner.
 */

import { InMemoryMailbox, LoopGroup, MailboxLoop, StepLoop, systemClock } from "../mod.ts";
import { OldWorkerLoop } from "./_old_worker_loop.ts";
import { standIn } from "./_stand_in.ts";

/** What these tasks use of the helpers they get. */
interface Helpers {
  readonly job: { readonly id: string; readonly attempts: number };
  readonly abortSignal: AbortSignal;
}

/** As it was. */
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

/** A job that nobody can do, however often it is tried. */
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

/**
 * A line of a crontab. Every process announces what is due next, under an id made of the time: it is
 * stored once. Every second here; for every minute make it 60_000.
 */
const EVERY_MS = 1_000;
const cron = new StepLoop("cron", async ({ sleep }) => {
  const dueAt = (Math.floor(Date.now() / EVERY_MS) + 1) * EVERY_MS;
  const delayMs = dueAt - Date.now();
  await jobs.send({ task: "water_plants", payload: {} }, { id: `plants-${dueAt}`, delayMs });
  await sleep(delayMs);
}, { stopOrder: -1 });

// With Graphile Worker, which must leave the signals to the group, it is
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
  everyMs: 100, // seconds, in earnest
});

console.log("Press Ctrl+C when you have seen enough.");
const report = await new LoopGroup([old, cron, worker], { shutdownTimeoutMs: 10_000 }).run();
console.log(`\n${report}`);
