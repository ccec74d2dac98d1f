/**
 * 6. PostgreSQL and dead letters. A failed message is retried with a growing delay. A message that fails too
 * often is dead-lettered with the reason, and can be redriven.
 *
 *     node examples/06_postgres.ts
 *
 * It ends by itself. `DATABASE_URL` names the database, an argument the schema that contains the table.
 */

import process from "node:process";
import { isMailboxError, LoopGroup, MailboxLoop, redrive, silentLog } from "../mod.ts";
import { PostgresMailbox } from "../src/engines/postgres/mod.ts";

const url = process.env["DATABASE_URL"] ?? "postgres://postgres@127.0.0.1:5432/postgres";
const [schema = "lastcall_example"] = process.argv.slice(2);
const options = { name: "invoices", schema };
const invoices = await PostgresMailbox.open<{ number: number; cents: number }>(url, options)
  .catch((error) => {
    if (!isMailboxError(error, "MailboxConnectionError")) throw error;
    console.error(`${error.message}\nStart a PostgreSQL, or set DATABASE_URL to one that answers.`);
    process.exit(1);
  });

/** A retry cannot help: a message that fails with this error is dead-lettered immediately. */
class InvalidInvoiceError extends Error {}

let bankIsOpen = false;
const group = new LoopGroup([
  new MailboxLoop({
    mailbox: invoices,
    deadLetter: { maxDeliveries: 3, include: [InvalidInvoiceError] },
    backoff: { minMs: 50 },
    log: silentLog, // it would log every failure
    handler: ({ body: { number, cents } }, { attempt }) => {
      if (cents < 0) throw new InvalidInvoiceError(`${cents} cents`);
      if (number === 2 && !bankIsOpen) throw new Error(`attempt ${attempt}: the bank is closed`);
      console.log(`invoice ${number} is paid`);
    },
    onDeadLetter: ({ body }, reason) => console.log(`invoice ${body.number}: ${reason.reason}`),
  }),
]);

const all = [{ number: 1, cents: 990 }, { number: 2, cents: 500 }, { number: 3, cents: -1 }];
await invoices.sendMany(all);
await group.run({ maxMessages: 5 }); // one is paid, one fails three times, one is invalid

// Dead letters are messages of a mailbox of their own, with the original body and the reason.
for (const { body: letter } of await invoices.deadLetters.peek!(10)) {
  console.log(`  dead letter ${letter.body?.number}: ${letter.error}`);
}

bankIsOpen = true;
const count = await redrive(invoices, { only: ({ reason }) => reason === "max_deliveries" });
console.log(`the bank is open, ${count} dead letter goes back`);
await group.run({ maxMessages: count });
console.log(`${await invoices.deadLetters.purge()} dead letter is deleted`);
await invoices.close();
