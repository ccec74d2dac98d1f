/**
 * 2. A group. Loops that belong together start together, and stop in an order that makes sense, under one
 * deadline.
 *
 *     node examples/02_group.ts
 *
 * Press Ctrl+C: the customers leave first, what is on the stove is finished, and the till, on which both
 * stand, is closed last. The report at the end accounts for every message.
 */

import { InMemoryMailbox, LoopGroup, MailboxLoop, StepLoop, systemClock } from "../mod.ts";

const orders = new InMemoryMailbox<string>("orders");
const menu = ["soup", "pasta", "curry", "cake"];

/** A lower stopOrder stops first: nobody orders in a kitchen that is closing. */
const customers = new StepLoop("customers", async ({ iteration, sleep }) => {
  await orders.send(menu[iteration % menu.length]!);
  await sleep(250);
}, { stopOrder: -1 });

/** Works on two messages at a time. A handler that returns is done; one that throws gets another try. */
const kitchen = new MailboxLoop({
  name: "kitchen",
  mailbox: orders,
  concurrency: 2,
  handler: async ({ body: dish }) => {
    await systemClock.sleep(400);
    console.log(`${dish} is served`);
  },
});

/** Support is what loops stand on: started before them, stopped after them, in reverse order. */
const till = {
  name: "till",
  start: () => console.log("the till is open"),
  stop: () => console.log("the till is closed"),
};

const group = new LoopGroup([customers, kitchen], {
  shutdownTimeoutMs: 5_000, // for everything together, however many loops there are
  resources: [till],
});
group.on("phase", ({ phase, reason }) => console.log(`> ${phase} (${reason})`));

console.log("Press Ctrl+C for the last call.");
const report = await group.run();
console.log(`\n${report}`);
