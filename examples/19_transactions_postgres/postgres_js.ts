/**
 * 19. Transactions in PostgreSQL, with `postgres` (postgres.js). One transaction stores an order and its message,
 * and one stores a parcel and acknowledges the message: the parcel is stored exactly once.
 *
 *     node examples/19_transactions_postgres/postgres_js.ts
 *
 * It ends by itself. `DATABASE_URL` names the database, an argument the schema of all tables.
 */

import process from "node:process";
import postgres from "postgres";
import { LoopGroup, MailboxLoop, silentLog } from "../../mod.ts";
import { PostgresMailbox } from "../../src/engines/postgres/mod.ts";

const url = process.env["DATABASE_URL"] ?? "postgres://postgres@127.0.0.1:5432/postgres";
const [schema = "lastcall_example"] = process.argv.slice(2);
const packing = await PostgresMailbox.open<string>(url, { name: "packing", schema });
const sql = postgres(url, { connection: { search_path: schema } });
await sql`create table orders (item text)`;
await sql`create table parcels (item text)`;

for (const item of ["tea", "cake"]) {
  await sql.begin(async (tx) => {
    await tx`insert into orders values (${item})`;
    await packing.withTransaction(tx).send(item);
  });
}

let failures = 1;
const packer = new MailboxLoop({
  mailbox: packing,
  backoff: { minMs: 10 },
  log: silentLog, // it would log the failure
  handler: async (message) => {
    await sql.begin(async (tx) => {
      await tx`insert into parcels values (${message.body})`;
      await message.withTransaction(tx).acknowledge();
      if (failures-- > 0) throw new Error("rolls back the parcel and the acknowledgement");
    });
  },
});
const { counts } = await new LoopGroup([packer]).run({ maxMessages: 3 });
const [row] = await sql`select count(*)::int as parcels from parcels`;
console.log(`${row?.["parcels"]} parcels, ${counts.nacked} retry`);
await sql`drop table orders, parcels`;
await sql.end();
await packing.close();
