/**
 * 19. Transactions in PostgreSQL, with Drizzle on `postgres` (on `pg` it is the same). One transaction stores an order and its message, and one
 * stores a parcel and acknowledges the message: the parcel is stored exactly once.
 *
 *     node examples/19_transactions_postgres/drizzle.ts
 *
 * It ends by itself. `DATABASE_URL` names the database, an argument the schema of all tables.
 */

import process from "node:process";
import { pgTable, text } from "drizzle-orm/pg-core";
import { drizzle } from "drizzle-orm/postgres-js";
import postgres from "postgres";
import { LoopGroup, MailboxLoop, silentLog } from "../../mod.ts";
import { PostgresMailbox } from "../../src/engines/postgres/mod.ts";

const url = process.env["DATABASE_URL"] ?? "postgres://postgres@127.0.0.1:5432/postgres";
const [schema = "lastcall_example"] = process.argv.slice(2);
const packing = await PostgresMailbox.open<string>(url, { name: "packing", schema });
const client = postgres(url, { connection: { search_path: schema } });
const db = drizzle(client);
const orders = pgTable("orders", { item: text().notNull() });
const parcels = pgTable("parcels", { item: text().notNull() });
await db.execute("create table orders (item text)");
await db.execute("create table parcels (item text)");

for (const item of ["tea", "cake"]) {
  await db.transaction(async (tx) => {
    await tx.insert(orders).values({ item });
    await packing.withTransaction(tx).send(item);
  });
}

let failures = 1;
const packer = new MailboxLoop({
  mailbox: packing,
  backoff: { minMs: 10 },
  log: silentLog, // it would log the failure
  handler: (message) =>
    db.transaction(async (tx) => {
      await tx.insert(parcels).values({ item: message.body });
      await message.withTransaction(tx).acknowledge();
      if (failures-- > 0) throw new Error("rolls back the parcel and the acknowledgement");
    }),
});
const { counts } = await new LoopGroup([packer]).run({ maxMessages: 3 });
console.log(`${await db.$count(parcels)} parcels, ${counts.nacked} retry`);
await db.execute("drop table orders, parcels");
await client.end();
await packing.close();
