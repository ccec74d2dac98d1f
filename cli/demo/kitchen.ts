// A small kitchen: customers order, three cooks work, and every order is in a mailbox until it is
// served. The last call is a stop: no new orders, what is on the stove is finished, the rest waits.

import {
  type Log,
  LoopGroup,
  type LoopGroupOptions,
  type Mailbox,
  MailboxLoop,
  silentLog,
  StepLoop,
} from "../../mod.ts";

/** What a customer wants, and how long it takes. */
export interface Order {
  readonly dish: string;
  readonly minutes: number;
}

/** What the kitchen stands in. */
export interface KitchenOptions extends LoopGroupOptions {
  readonly orders: Mailbox<Order>;
  readonly log: Log;
  /** Tells the guests something. */
  readonly say: (text: string) => void;
}

const MENU = ["soup", "pasta", "curry", "salad", "cake", "tea"];
/** A minute in this kitchen. */
const MINUTE_MS = 500;
/** More orders do not fit on the board. */
const MAX_ORDERS = 20;

const pick = (count: number) => Math.floor(Math.random() * count);
const cook = (minutes: number) =>
  new Promise((resolve) => setTimeout(resolve, minutes * MINUTE_MS));

/** A group of three loops, ready to open. */
export function kitchenOn({ orders, say, ...options }: KitchenOptions): LoopGroup {
  /** They order a little faster than the cooks can work, and stop first. */
  const customers = new StepLoop("customers", async ({ pause }) => {
    if (await orders.approximateCount() < MAX_ORDERS) {
      await orders.send({ dish: MENU[pick(MENU.length)]!, minutes: 2 + pick(4) });
    }
    await pause(350);
  }, { priority: -1 });

  /** Three dishes at a time, one for each cook: what waits stays in the book. */
  const kitchen = new MailboxLoop<Order>({
    name: "kitchen",
    mailbox: orders,
    concurrency: 3,
    deadLetter: { maxDeliveries: 3 },
    backoff: { minMs: 500 },
    log: silentLog,
    handler: async ({ body: { dish, minutes } }, { attempt, stopping }) => {
      await cook(minutes);
      if (pick(8) === 0) throw new Error(`the ${dish} is burnt`);
      const notes = [
        attempt > 1 && `attempt ${attempt}`,
        stopping.aborted && "after the last call",
      ];
      say([`${dish} is served`, ...notes.filter(Boolean).map((note) => `(${note})`)].join(" "));
    },
  });

  /** Looks at the kitchen once a second, until it has closed. */
  const board = new StepLoop("board", async ({ pause }) => {
    await pause(1_000);
    const { ready, phase } = group.health();
    const { acknowledged, nacked } = kitchen.figures;
    say(
      `  ${ready ? "open" : phase} · ${await orders.approximateCount()} in the book · ` +
        `${kitchen.inFlight.length} in the kitchen · ${acknowledged} served · ${nacked} burnt`,
    );
  }, { priority: 1 });

  const group = new LoopGroup([customers, kitchen, board], options);
  return group;
}
