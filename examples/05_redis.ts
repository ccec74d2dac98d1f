/**
 * 5. Redis. Processes on many machines share a mailbox; each message goes to one of them.
 *
 *     node examples/05_redis.ts
 *
 * Start it in two or three terminals, on any runtime: they share the parcels. Press Ctrl+C in one: the others
 * immediately receive the messages that it releases. `REDIS_URL` names the server, an argument the queue.
 */

import process from "node:process";
import {
  isMailboxError,
  LoopGroup,
  MailboxLoop,
  openMailbox,
  StepLoop,
  systemClock,
} from "../mod.ts";

const url = process.env["REDIS_URL"] ?? "redis://127.0.0.1:6379";
const [queue = "example-parcels"] = process.argv.slice(2);

const parcels = await openMailbox<{ to: string }>(`${url}?queue=${queue}`).catch((error) => {
  if (!isMailboxError(error, "MailboxConnectionError")) throw error;
  console.error(`${error.message}\nStart a Redis, or set REDIS_URL to one that answers.`);
  process.exit(1);
});

/** Every process sends the parcel of this second. The mailbox remembers its id, so it is stored once. */
const post = new StepLoop("post", async ({ sleep }) => {
  const second = Math.floor(Date.now() / 1_000);
  await parcels.send({ to: `house ${second % 100}` }, { id: `parcel-${second}`, dedupMs: 60_000 });
  await sleep(1_000);
}, { stopOrder: -1 });

const courier = new MailboxLoop({
  name: "courier",
  mailbox: parcels,
  concurrency: 2,
  prefetch: 4, // received ahead; a stop releases them
  handler: async ({ id, body: { to } }) => {
    await systemClock.sleep(400);
    console.log(`${id} delivered to ${to} by process ${process.pid}`);
  },
});

const group = new LoopGroup([post, courier], { shutdownTimeoutMs: 5_000, resources: [parcels] });
console.log("Press Ctrl+C to stop the courier.");
const report = await group.run();
console.log(`\n${report}`);
