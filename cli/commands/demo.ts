// `lastcall demo`: a kitchen to watch during a shutdown. Customers order, three cooks work, and
// every order is a message. On Ctrl+C the kitchen takes no new orders, finishes the dishes on the
// stove, and keeps the rest for the next start.

import { type Command, Option } from "commander";
import {
  InMemoryMailbox,
  type Log,
  LoopGroup,
  type LoopGroupOptions,
  type Mailbox,
  MailboxLoop,
  silentLog,
  StepLoop,
} from "../../mod.ts";
import { connectionReason } from "../_errors.ts";
import { checkHealth } from "../_health.ts";
import type { Io } from "../_io.ts";
import { open } from "../_mailbox.ts";
import { examples, parseCount, parseDuration } from "../_options.ts";
import { counted, jsonLog, paint, printer } from "../_print.ts";

interface Order {
  readonly dish: string;
  readonly minutes: number;
}

interface Flags {
  readonly file: string;
  readonly for?: number;
  readonly healthPort?: number;
}

type Say = (text: string) => void;

const SHUTDOWN_TIMEOUT_MS = 10_000;
const MENU = ["soup", "pasta", "curry", "salad", "cake", "tea"];
/** A minute in this kitchen. */
const MINUTE_MS = 500;
const MAX_ORDERS = 20;
const NO_SQLITE = "keeping them needs Deno, Bun, or Node 22.13 or newer";

/** Adds `lastcall demo`. */
export function addDemo(program: Command, io: Io): void {
  program.command("demo")
    .description(
      "Watch a graceful shutdown: a kitchen on a SQLite file. Ctrl+C closes it; the next start " +
        "continues.",
    )
    .option("--file <path>", "the SQLite file of the orders", "./kitchen.db")
    .addOption(new Option("--for <time>", "close after this time, as 10s").argParser(parseDuration))
    .addOption(
      new Option("--health-port <port>", "serve probes and the live page on this port")
        .argParser(parseCount(0, 65_535)),
    )
    .addHelpText(
      "after",
      examples(
        ["lastcall demo", "until Ctrl+C"],
        ["lastcall demo --for 10s", "for ten seconds"],
        ["lastcall demo --health-port 8080", "with a page at http://localhost:8080/"],
        ["lastcall peek 'sqlite:./kitchen.db?queue=orders'", "the orders, in another terminal"],
      ),
    )
    .action(async (flags: Flags, command: Command) => {
      await checkHealth(flags);
      await runKitchen(await openOrders(flags), flags, io, printer(io, command).json);
    });
}

/** Falls back to memory on Node 20, which has no SQLite. */
async function openOrders({ file }: Flags): Promise<Mailbox<Order>> {
  const path = encodeURI(file).replaceAll("?", "%3F").replaceAll("#", "%23");
  try {
    return await open(`sqlite:${path}?queue=orders`, true, { log: silentLog }) as Mailbox<Order>;
  } catch (error) {
    if (connectionReason(error) !== "client_missing") throw error;
    return new InMemoryMailbox<Order>("orders");
  }
}

function isKept(orders: Mailbox<Order>): boolean {
  return !(orders instanceof InMemoryMailbox);
}

async function runKitchen(
  orders: Mailbox<Order>,
  flags: Flags,
  io: Io,
  json: boolean,
): Promise<void> {
  const style = paint(io, io.out);
  const say: Say = (text) => json ? undefined : io.out.write(`${text}\n`);
  let closingTime: ReturnType<typeof setTimeout> | undefined;
  const group = makeKitchen(
    orders,
    (text) => say(text.startsWith(" ") ? style("dim", text) : text),
    {
      shutdownTimeoutMs: SHUTDOWN_TIMEOUT_MS,
      ...io.group,
      ...(flags.healthPort === undefined ? {} : { healthPort: flags.healthPort }),
      health: { mailboxes: [orders] },
      log: json ? jsonLog(io) : textLog(say, io.err.interactive),
      resources: [{
        name: "order book",
        async stop() {
          clearTimeout(closingTime);
          const left = await orders.approximateCount();
          const waits = left === 1 ? "1 order waits" : `${left} orders wait`;
          say(
            isKept(orders)
              ? `\n${waits} for the next start.`
              : `\n${counted(left, "order")} lost: ${NO_SQLITE}.`,
          );
          await orders.close();
        },
      }],
    },
  );
  group.on("phase", ({ phase, reason }) => {
    if (!io.err.interactive) say(`> ${phase} (${reason})`);
  });
  await welcome(orders, flags, say, (text) => style("bold", text));
  if (flags.for !== undefined) closingTime = setTimeout(group.shutdown, flags.for);
  await group.main();
}

/** Makes the group: `customers` send orders, `kitchen` handles them, `board` shows the counts. */
function makeKitchen(orders: Mailbox<Order>, say: Say, options: LoopGroupOptions): LoopGroup {
  const pick = (count: number) => Math.floor(Math.random() * count);

  // Customers order a little faster than the cooks work. They stop first.
  const customers = new StepLoop("customers", async ({ sleep }) => {
    if (await orders.approximateCount() < MAX_ORDERS) {
      await orders.send({ dish: MENU[pick(MENU.length)]!, minutes: 2 + pick(4) });
    }
    await sleep(350);
  }, { stopOrder: -1 });

  const kitchen = new MailboxLoop<Order>({
    name: "kitchen",
    mailbox: orders,
    concurrency: 3,
    deadLetter: { maxDeliveries: 3 },
    backoff: { minMs: 500 },
    log: silentLog,
    handler: async ({ body: { dish, minutes } }, { attempt, stopping }) => {
      await new Promise((resolve) => setTimeout(resolve, minutes * MINUTE_MS));
      if (pick(8) === 0) throw new Error(`the ${dish} is burnt`);
      const notes = [
        attempt > 1 && `attempt ${attempt}`,
        stopping.aborted && "after the last call",
      ];
      say([`${dish} is served`, ...notes.filter(Boolean).map((note) => `(${note})`)].join(" "));
    },
  });

  const board = new StepLoop("board", async ({ sleep }) => {
    await sleep(1_000);
    const { ready, phase } = group.health();
    const { acknowledged, nacked } = kitchen.counts;
    say(
      `  ${ready ? "open" : phase} · ${await orders.approximateCount()} in the book · ` +
        `${kitchen.inFlight.length} in the kitchen · ${acknowledged} served · ${nacked} burnt`,
    );
  }, { stopOrder: 1 });

  const group = new LoopGroup([customers, kitchen, board], options);
  return group;
}

async function welcome(
  orders: Mailbox<Order>,
  { file, healthPort }: Flags,
  say: Say,
  bold: (text: string) => string,
): Promise<void> {
  const left = await orders.approximateCount();
  const place = isKept(orders) ? "in a file" : "in memory";
  say(bold(`A kitchen: customers order, three cooks work, and every order is ${place}.`));
  if (!isKept(orders)) say(`The orders are lost at the end: ${NO_SQLITE}.`);
  else if (left === 0) say(`No orders yet in ${file}.`);
  else say(`${counted(left, "order")} left from last time in ${file}.`);
  if (healthPort) say(`Live page: http://localhost:${healthPort}/`);
  say("Press Ctrl+C for the last call.\n");
}

/** Writes log messages as text. On a terminal `main()` shows the report, so it is left out here. */
function textLog(say: Say, interactive: boolean): Log {
  const write: Log["info"] = (text, { report } = {}) => {
    if (report === undefined || !interactive) say(text);
  };
  return { ...silentLog, info: write, warn: write, error: write };
}
