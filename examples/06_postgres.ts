/**
 * 6. PostgreSQL, and what becomes of messages that fail. They are tried again after a growing pause, and in
 * the end put with the dead letters, with the reason, from where they can be sent back.
 *
 *     node examples/06_postgres.ts
 *
 * It ends by itself. `DATABASE_URL` names the database, an argument the schema that the table is made in.
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

/** Another attempt does not make sense of nonsense: this one is buried at the first. */
class NonsenseError extends Error {}

/** Works until nothing is left but dead letters. */
async function workOff(title: string): Promise<void> {
  console.log(`\n${title}`);
  let open = await invoices.approximateCount();
  const tell = (what: string) => {
    console.log(what);
    if (--open === 0) void group.shutdown(); // it waits until this one is settled, too
  };
  const clerk = new MailboxLoop({
    name: "clerk",
    mailbox: invoices,
    concurrency: 3,
    deadLetter: { maxDeliveries: 3, include: [NonsenseError] },
    backoff: { minMs: 50 },
    log: silentLog, // it would warn of every failure
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

// A dead letter is a message of a mailbox of its own: with the body as it was, and why it is there.
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
