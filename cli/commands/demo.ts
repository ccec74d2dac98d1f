import { type Command, Option } from "commander";
import { InMemoryMailbox, type Log, type Mailbox, silentLog } from "../../mod.ts";
import { kitchenOn, type Order } from "../demo/kitchen.ts";
import { parseCount, parseDuration } from "../_duration.ts";
import { checkHealth } from "../_check_health.ts";
import { isMissing } from "../_errors.ts";
import { examples } from "../_help.ts";
import type { Io } from "../_io.ts";
import { jsonLog } from "../_json_log.ts";
import { open } from "../_mailbox.ts";
import { counted, paint, printer } from "../_print.ts";

const SHUTDOWN_TIMEOUT_MS = 10_000;

interface Options {
  readonly file: string;
  readonly for?: number;
  readonly healthPort?: number;
}

/** `lastcall demo`: a kitchen to watch stopping well. */
export function addDemo(program: Command, io: Io): void {
  program.command("demo")
    .description(
      "See it: a kitchen on a SQLite file. Ctrl+C is the last call; the next start goes on.",
    )
    .option("--file <path>", "where the orders are kept", "./kitchen.db")
    .addOption(new Option("--for <time>", "close after so long, as 10s").argParser(parseDuration))
    .addOption(
      new Option("--health-port <port>", "answer probes and show the live page there")
        .argParser(parseCount(0, 65_535)),
    )
    .addHelpText(
      "after",
      examples(
        ["lastcall demo", "until Ctrl+C"],
        ["lastcall demo --for 10s", "closes by itself"],
        ["lastcall demo --health-port 8080", "with a page at http://localhost:8080/"],
        ["lastcall peek 'sqlite:./kitchen.db?queue=orders'", "what waits, from another terminal"],
      ),
    )
    .action(async (options: Options, command: Command) => {
      const { json } = printer(io, command);
      await checkHealth(options);
      await openKitchen(await orderBook(options), options, io, json);
    });
}

/** Node 20 has no SQLite: there the kitchen opens all the same, and forgets what it did not do. */
async function orderBook({ file }: Options): Promise<Mailbox<Order>> {
  const path = encodeURI(file).replaceAll("?", "%3F").replaceAll("#", "%23");
  try {
    return await open(`sqlite:${path}?queue=orders`, true, { log: silentLog }) as Mailbox<Order>;
  } catch (error) {
    if (!isMissing(error)) throw error;
    return new InMemoryMailbox<Order>("orders");
  }
}

async function openKitchen(
  orders: Mailbox<Order>,
  options: Options,
  io: Io,
  json: boolean,
): Promise<void> {
  const style = paint(io, io.out);
  const tell = (text: string) => json ? undefined : io.out.write(`${text}\n`);
  let closingTime: ReturnType<typeof setTimeout> | undefined;
  const group = kitchenOn({
    orders,
    shutdownTimeoutMs: SHUTDOWN_TIMEOUT_MS,
    ...io.group,
    ...(options.healthPort === undefined ? {} : { healthPort: options.healthPort }),
    health: { mailboxes: [orders] },
    log: json ? jsonLog(io) : reportTo(tell, io.err.interactive),
    say: (text) => tell(text.startsWith(" ") ? style("dim", text) : text),
    support: [{
      name: "order book",
      async stop() {
        clearTimeout(closingTime);
        const left = await orders.approximateCount();
        const waits = left === 1 ? "1 order waits" : `${left} orders wait`;
        tell(
          isKept(orders)
            ? `\n${waits} for the next start.`
            : `\n${counted(left, "order")} forgotten: ${NO_SQLITE}.`,
        );
        await orders.close();
      },
    }],
  });
  group.on("phase", ({ phase, reason }) => {
    if (!io.err.interactive) tell(`> ${phase} (${reason})`);
  });
  await welcome(orders, options, tell, style);
  if (options.for !== undefined) closingTime = setTimeout(group.shutdown, options.for);
  await group.main();
}

const NO_SQLITE = "keeping them needs Deno, Bun, or Node 22.13 or later";

function isKept(orders: Mailbox<Order>): boolean {
  return !(orders instanceof InMemoryMailbox);
}

async function welcome(
  orders: Mailbox<Order>,
  { file, healthPort }: Options,
  tell: (text: string) => void,
  style: ReturnType<typeof paint>,
): Promise<void> {
  const left = await orders.approximateCount();
  const place = isKept(orders) ? "in a file" : "in memory";
  tell(
    style("bold", `A kitchen: customers order, three cooks work, and every order is ${place}.`),
  );
  if (!isKept(orders)) tell(`They are gone at the end: ${NO_SQLITE}.`);
  else if (left === 0) tell(`A new day, no orders yet in ${file}.`);
  else tell(`${counted(left, "order")} left from last time in ${file}.`);
  if (healthPort) tell(`Look at it on http://localhost:${healthPort}/`);
  tell("Press Ctrl+C for the last call.\n");
}

/** The report belongs to what is shown, and what goes wrong too; at a terminal `main()` shows it. */
function reportTo(tell: (text: string) => void, atTerminal: boolean): Log {
  const take: Log["info"] = (text, { report } = {}) => {
    if (report === undefined || !atTerminal) tell(text);
  };
  return { ...silentLog, info: take, warn: take, error: take };
}
