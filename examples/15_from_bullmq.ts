/**
 * 15. Moving over from BullMQ, without a gap and without losing a job.
 *
 *     node examples/15_from_bullmq.ts
 *
 * | there                                      | here                                                     |
 * | ------------------------------------------ | -------------------------------------------------------- |
 * | `new Queue`, `queue.add(name, data)`       | `RedisMailbox.open`, `mailbox.send(body)`                |
 * | `new Worker(queue, processor)`             | `new MailboxLoop({ mailbox, handler })` in a `LoopGroup` |
 * | `job.data`, `job.attemptsMade` (from 0)    | `message.body`, `attempt` (from 1)                       |
 * | `attempts`, 1 unless told                  | `deadLetter: { maxDeliveries }`, endless unless told     |
 * | `backoff: { type: "exponential", delay }`  | `backoff: { minMs, maxMs }`                              |
 * | `UnrecoverableError`                       | a class of yours in `deadLetter.include`                 |
 * | `delay`, `jobId`                           | `delayMs` (12 hours at most), `id`                       |
 * | `lockDuration`, 30 s; `lockRenewTime`      | `visibilityTimeoutMs`, 5 min; `lease`                    |
 * | `stalledInterval`, `maxStalledCount`       | not needed: a lease that ends is over by itself          |
 * | the failed set, `job.retry()`              | `mailbox.deadLetters`, `redrive(mailbox)`                |
 * | `removeOnComplete`, `removeOnFail`         | what is done is gone; dead letters stay until purged     |
 * | `job.updateProgress`                       | `checkpoint`, which the next attempt gets                |
 * | `job.waitUntilFinished`                    | `replyTo` and `message.reply`                            |
 * | `worker.pause`, `worker.resume`            | `loop.drain`, `loop.resume`                              |
 * | `worker.close()`, which has no limit       | Ctrl+C, SIGTERM or `group.shutdown()`, with a deadline   |
 * | priorities, flows, rate limits, schedulers | not here                                                 |
 *
 * The jobs that are still in the old queue stay there, and are worked off from there: for as long as that
 * takes, both workers run in one group and call the same function. 1. Deploy this. 2. Let the producers
 * send to the mailbox. 3. When the old queue is empty then, remove the old worker.
 */

import { InMemoryMailbox, LoopGroup, MailboxLoop, systemClock } from "../mod.ts";
import { OldWorkerLoop } from "./_old_worker_loop.ts";
import { standIn } from "./_stand_in.ts";

interface Mail {
  readonly to: string;
}

/** The work itself. It knows neither queue, so that either can feed it. */
async function sendMail({ to }: Mail, from: string): Promise<void> {
  await systemClock.sleep(100);
  console.log(`mail to ${to}, from the ${from} queue`);
}

// ── There: as it was, but for `autorun: false`. With BullMQ these are
//
//     const queue = new Queue("mails", { connection });
//     const worker = new Worker("mails", (job) => sendMail(job.data, "old"), { connection, autorun: false });
//
// and here something stands in for them, so that the example runs without BullMQ.
const sent = [{ to: "ada" }, { to: "grace" }, { to: "edsger" }];
const { queue, worker } = standIn<Mail>(sent, (mail) => sendMail(mail, "old"));

const old = new OldWorkerLoop("old mails", {
  run: () => worker.run(),
  stop: () => worker.close(),
  left: async () => {
    const kinds = ["waiting", "active", "delayed", "prioritized", "waiting-children"] as const;
    return Object.values(await queue.getJobCounts(...kinds)).reduce((sum, n) => sum + n, 0);
  },
  onEmpty: () => console.log("the old queue is empty"),
  everyMs: 100, // seconds, in earnest
});

// ── Here: on the Redis that is there already it is
//
//     const mails = await RedisMailbox.open<Mail>("redis://localhost", { name: "mails" });
const mails = new InMemoryMailbox<Mail>("mails");
await mails.sendMany([{ to: "barbara" }, { to: "donald" }]);

const mailer = new MailboxLoop({
  name: "mails",
  mailbox: mails,
  concurrency: 2,
  deadLetter: { maxDeliveries: 3 },
  backoff: { minMs: 1_000 },
  handler: ({ body }) => sendMail(body, "new"),
});

console.log("Press Ctrl+C when you have seen enough.");
const report = await new LoopGroup([old, mailer], { shutdownTimeoutMs: 10_000 }).run();
console.log(`\n${report}`);
