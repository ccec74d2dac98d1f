/**
 * 15. Migrating from BullMQ without losing a job. docs/migrating.md has the table of options.
 *
 *     node examples/15_from_bullmq.ts
 *
 * Jobs in the old queue stay there until the old worker has handled them. Until then, both workers run in one
 * group and call the same function. 1. Deploy this. 2. Let the producers send to the mailbox. 3. Remove the old
 * worker when the old queue is empty.
 */

import { InMemoryMailbox, LoopGroup, MailboxLoop, systemClock } from "../mod.ts";
import { OldWorkerLoop } from "./_old_worker_loop.ts";
import { standIn } from "./_stand_in.ts";

interface Mail {
  readonly to: string;
}

/** The work. It does not depend on a queue, so both workers can call it. */
async function sendMail({ to }: Mail, from: string): Promise<void> {
  await systemClock.sleep(100);
  console.log(`mail to ${to}, from the ${from} queue`);
}

// BullMQ, unchanged except for `autorun: false`:
//     const queue = new Queue("mails", { connection });
//     const worker = new Worker("mails", (job) => sendMail(job.data, "old"), { connection, autorun: false });
// A simple queue replaces it here, so that the example runs without BullMQ.
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
  everyMs: 100, // use seconds in a real program
});

// lastcall. On the existing Redis server: await openMailbox<Mail>("redis://localhost?queue=mails")
const mails = new InMemoryMailbox<Mail>("mails");
await mails.sendMany([{ to: "barbara" }, { to: "donald" }]);

const mailer = new MailboxLoop({
  mailbox: mails,
  concurrency: 2,
  deadLetter: { maxDeliveries: 3 },
  handler: ({ body }) => sendMail(body, "new"),
});

console.log("Press Ctrl+C when you have seen enough.");
const report = await new LoopGroup([old, mailer], { shutdownTimeoutMs: 10_000 }).run();
console.log(`\n${report}`);
