/**
 * A small kitchen: customers order, three cooks work, and everything is in a SQLite file. Start it with
 * `npm start`. Ctrl+C is the last call: no new orders, what is on the stove is finished, the rest waits
 * in the file. Start it again and it goes on where it stopped.
 */

import { fileURLToPath } from "node:url";
import { LoopGroup, MailboxLoop, silentLog, StepLoop } from "../mod.ts";
import { SqliteMailbox } from "../src/engines/sqlite/mod.ts";

interface Order {
  readonly dish: string;
  readonly minutes: number;
}

const MENU = ["soup", "pasta", "curry", "salad", "cake", "tea"];
const pick = (count: number) => Math.floor(Math.random() * count);
const cook = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

const file = fileURLToPath(new URL("../kitchen.db", import.meta.url));
const orders = await SqliteMailbox.open<Order>(file, { name: "orders" });
const left = await orders.approximateCount();
console.log(left === 0 ? "A new day, no orders yet." : `${left} orders are left from last time.`);
console.log("Press Ctrl+C for the last call.\n");

/** Orders a little faster than the cooks can work, up to twenty. They stop first. */
const customers = new StepLoop("customers", async ({ pause }) => {
  if (await orders.approximateCount() < 20) {
    await orders.send({ dish: MENU[pick(MENU.length)]!, minutes: 2 + pick(4) });
  }
  await pause(350);
}, { priority: -1 });

/** Three dishes at a time, and two more taken from the queue ahead: a stop gives those back. */
const kitchen = new MailboxLoop({
  name: "kitchen",
  mailbox: orders,
  concurrency: 3,
  prefetch: 2,
  deadLetter: { maxDeliveries: 3 },
  backoff: { minMs: 500 },
  log: silentLog,
  handler: async ({ body: { dish, minutes } }, { attempt, stopping }) => {
    await cook(minutes * 500);
    if (pick(8) === 0) throw new Error("burnt");
    const notes = [attempt > 1 && `attempt ${attempt}`, stopping.aborted && "after the last call"];
    console.log(`${dish} is served`, ...notes.filter(Boolean).map((note) => `(${note})`));
  },
});

/** Looks at the kitchen once a second, until it has closed. */
const board = new StepLoop("board", async ({ pause }) => {
  await pause(1_000);
  const { ready, phase } = group.health();
  const { acknowledged, nacked } = kitchen.figures;
  const waiting = await orders.approximateCount();
  const cooking = kitchen.inFlight.length;
  console.log(
    `  ${ready ? "open" : phase} · ${waiting} in the book · ${cooking} in the kitchen · ` +
      `${acknowledged} served · ${nacked} burnt`,
  );
}, { priority: 1 });

const group = new LoopGroup([customers, kitchen, board], {
  shutdownTimeoutMs: 10_000,
  support: [{
    name: "order book",
    stop: async () => {
      console.log(`\n${await orders.approximateCount()} orders wait for the next start.`);
      await orders.close();
    },
  }],
});
group.on("phase", ({ phase, reason }) => console.log(`> ${phase} (${reason})`));
console.log(String(await group.run()));
