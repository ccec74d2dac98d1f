/**
 * 2. A group. Several loops start together and stop in order, under one deadline.
 *
 *     node examples/02_group.ts
 *
 * Press Ctrl+C: the customers stop first, the kitchen finishes its dishes, and the till closes last. The
 * report at the end counts every message.
 */

import { InMemoryMailbox, LoopGroup, MailboxLoop, StepLoop, systemClock } from "../mod.ts";

const orders = new InMemoryMailbox<string>("orders");
const menu = ["soup", "pasta", "curry", "cake"];

/** Producers stop before consumers: a lower `stopOrder` stops first. */
const customers = new StepLoop("customers", async ({ iteration, sleep }) => {
  await orders.send(menu[iteration % menu.length]!);
  await sleep(250);
}, { stopOrder: -1 });

/** Handles two messages at a time. A message whose handler throws is retried. */
const kitchen = new MailboxLoop({
  name: "kitchen",
  mailbox: orders,
  concurrency: 2,
  handler: async ({ body: dish }) => {
    await systemClock.sleep(400);
    console.log(`${dish} is served`);
  },
});

/** A resource starts before the loops and stops after them. */
const till = {
  name: "till",
  start: () => console.log("the till is open"),
  stop: () => console.log("the till is closed"),
};

const group = new LoopGroup([customers, kitchen], {
  shutdownTimeoutMs: 5_000, // for the whole stop, however many loops there are
  resources: [till],
});
group.on("phase", ({ phase, reason }) => console.log(`> ${phase} (${reason})`));

console.log("Press Ctrl+C for the last call.");
const report = await group.run();
console.log(`\n${report}`);
