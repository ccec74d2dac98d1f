/**
 * 6. PostgreSQL and dead letters. Failed messages are retried with a growing delay. A message that fails too
 * often is dead-lettered with the reason, and can be redriven.
 *
 *     node examples/06_postgres.ts
 *
 * It ends by itself. `DATABASE_URL` names the database, an argument the schema that contains the table.
 */

import process from "node:process";
import { isMailboxError, LoopGroup, MailboxLoop, redrive, silentLog } from "../mod.ts";
import { PostgresMailbox } from "../src/engines/postgres/mod.ts";

interface Invoice {
  readonly number: number;
  readonly cents: number;
}

const url = process.env["DATABASE_URL"] ?? "postgres://postgres@127.0.0.1:5432/postgres";
const [schema = "lastcall_example"] = process.argv.slice(2);

const invoices = await PostgresMailbox.open<Invoice>(url, { name: "invoices", schema })
  .catch((error) => {
    if (!isMailboxError(error, "MailboxConnectionError")) throw error;
    console.error(`${error.message}\nStart a PostgreSQL, or set DATABASE_URL to one that answers.`);
    process.exit(1);
  });

let bankIsOpen = false;

/** A retry cannot help: a message that fails with this error is dead-lettered immediately. */
class NonsenseError extends Error {}

/** Handles messages until only dead letters are left. */
async function workOff(title: string): Promise<void> {
  console.log(`\n${title}`);
  let open = await invoices.approximateCount();
  const tell = (what: string) => {
    console.log(what);
    if (--open === 0) void group.shutdown(); // the stop waits until this message is settled
  };
  const clerk = new MailboxLoop({
    name: "clerk",
    mailbox: invoices,
    concurrency: 3,
    deadLetter: { maxDeliveries: 3, include: [NonsenseError] },
    backoff: { minMs: 50 },
    log: silentLog, // it would log every failure
    handler: ({ body: { number, cents } }, { attempt }) => {
      if (cents < 0) throw new NonsenseError(`${cents} cents`);
      if (number === 2 && !bankIsOpen) throw new Error(`attempt ${attempt}: the bank is closed`);
      tell(`invoice ${number} is paid`);
    },
    onDeadLetter: ({ body }, { reason }) => tell(`invoice ${body.number} is buried: ${reason}`),
  });
  const group = new LoopGroup([clerk]);
  await group.run();
}

await invoices.sendMany([{ number: 1, cents: 990 }, { number: 2, cents: 500 }]);
await invoices.send({ number: 3, cents: -1 });
await workOff("The first day:");

// Dead letters are messages of a separate mailbox. Each has the original body and the reason.
const { deadLetters } = invoices;
for (
  const { body: letter } of await deadLetters.receive({ maxMessages: 10, visibilityTimeoutMs: 0 })
) {
  console.log(`  letter ${letter.body?.number}: ${letter.reason}, ${letter.error}`);
}

bankIsOpen = true;
const back = await redrive(invoices, { only: ({ reason }) => reason === "max_deliveries" });
await workOff(`The bank is open, ${back} letter goes back:`);

console.log(`\n${await deadLetters.purge()} letter was nonsense and is thrown away`);
await invoices.close();
