/**
 * 26. Cron. Three replicas send one message for each slot of a schedule, and one is stopped and started again.
 * Here the slots are seconds, and the replicas share a mailbox in memory. In a deployment they are processes
 * with the URL of one database.
 *
 *     node examples/26_cron.ts
 *
 * It ends by itself.
 */

import { InMemoryMailbox, LoopGroup, MailboxLoop } from "../mod.ts";
import { CronLoop } from "../src/cron/mod.ts";

const reports = new InMemoryMailbox<{ until: string }>("reports");

/** The same options in every replica: the name and the time of a slot are the id of its message. */
function replica(): CronLoop<{ until: string }> {
  return new CronLoop({
    name: "report",
    schedule: "* * * * * *", // "0 9 * * 1" for Mondays at nine
    timezone: "Europe/Berlin",
    mailbox: reports,
    body: ({ at }) => ({ until: at.toISOString() }),
    catchUp: "all", // send the slots that were missed while no replica ran
  });
}

const SLOTS = 4;
const seen: string[] = [];
const worker = new MailboxLoop({
  mailbox: reports,
  handler: ({ body }) => {
    seen.push(body.until);
    console.log(`report until ${body.until}`);
    if (seen.length === 2) void replaceAll();
    if (seen.length === SLOTS) void group.shutdown();
  },
});

let replicas = [replica(), replica(), replica()];
let running: readonly Promise<void>[] = replicas.map((loop) => loop.run());
console.log(`the first slot is ${replicas[0]!.next?.toISOString()}`);

/** A deploy that stops every replica for longer than a second: a slot is missed, and sent by the new ones. */
async function replaceAll(): Promise<void> {
  await Promise.all(replicas.map((loop) => loop.shutdown()));
  console.log("all replicas are stopped");
  await new Promise((resolve) => setTimeout(resolve, 1_200));
  replicas = [replica(), replica(), replica()];
  running = [...running, ...replicas.map((loop) => loop.run())];
}

const group = new LoopGroup([worker]);
await group.run();
await Promise.all(replicas.map((loop) => loop.shutdown()));
await Promise.all(running);
console.log(`${seen.length} slots, ${new Set(seen).size} different ones`);
await reports.close();
