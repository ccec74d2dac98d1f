/**
 * 19. Transactions in PostgreSQL, with Kysely. One transaction stores an order and its message, and one
 * stores a parcel and acknowledges the message: the parcel is stored exactly once.
 *
 *     node examples/19_transactions_postgres/kysely.ts
 *
 * It ends by itself. `DATABASE_URL` names the database, an argument the schema of all tables.
 */

import process from "node:process";
import { Kysely, PostgresDialect } from "kysely";
import { Pool } from "pg";
import { LoopGroup, MailboxLoop, silentLog } from "../../mod.ts";
import { PostgresMailbox } from "../../src/engines/postgres/mod.ts";

interface Tables {
  readonly orders: { readonly item: string };
  readonly parcels: { readonly item: string };
}

const url = process.env["DATABASE_URL"] ?? "postgres://postgres@127.0.0.1:5432/postgres";
const [schema = "lastcall_example"] = process.argv.slice(2);
const packing = await PostgresMailbox.open<string>(url, { name: "packing", schema });
const pool = new Pool({ connectionString: url, options: `-c search_path=${schema}` });
const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });
await db.schema.createTable("orders").addColumn("item", "text").execute();
await db.schema.createTable("parcels").addColumn("item", "text").execute();

for (const item of ["tea", "cake"]) {
  await db.transaction().execute(async (trx) => {
    await trx.insertInto("orders").values({ item }).execute();
    await packing.withTransaction(trx).send(item);
  });
}

let failures = 1;
const packer = new MailboxLoop({
  mailbox: packing,
  backoff: { minMs: 10 },
  log: silentLog, // it would log the failure
  handler: (message) =>
    db.transaction().execute(async (trx) => {
      await trx.insertInto("parcels").values({ item: message.body }).execute();
      await message.withTransaction(trx).acknowledge();
      if (failures-- > 0) throw new Error("rolls back the parcel and the acknowledgement");
    }),
});
const { counts } = await new LoopGroup([packer]).run({ maxMessages: 3 });
const parcels = await db.selectFrom("parcels").selectAll().execute();
console.log(`${parcels.length} parcels, ${counts.nacked} retry`);
await db.schema.dropTable("orders").execute();
await db.schema.dropTable("parcels").execute();
await db.destroy();
await packing.close();
