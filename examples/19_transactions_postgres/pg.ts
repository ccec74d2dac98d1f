/**
 * 19. Transactions in PostgreSQL, with `pg`. One transaction stores an order and its message, and one
 * stores a parcel and acknowledges the message: the parcel is stored exactly once.
 *
 *     node examples/19_transactions_postgres/pg.ts
 *
 * It ends by itself. `DATABASE_URL` names the database, an argument the schema of all tables.
 */

import process from "node:process";
import { Pool, type PoolClient } from "pg";
import { LoopGroup, MailboxLoop, silentLog } from "../../mod.ts";
import { PostgresMailbox } from "../../src/engines/postgres/mod.ts";

const url = process.env["DATABASE_URL"] ?? "postgres://postgres@127.0.0.1:5432/postgres";
const [schema = "lastcall_example"] = process.argv.slice(2);
const packing = await PostgresMailbox.open<string>(url, { name: "packing", schema });
const pool = new Pool({ connectionString: url, options: `-c search_path=${schema}` });
await pool.query("create table orders (item text); create table parcels (item text)");

/** Commits, or rolls back when `work` rejects. */
async function transaction(work: (tx: PoolClient) => Promise<void>): Promise<void> {
  const client = await pool.connect();
  try {
    await client.query("begin");
    await work(client);
    await client.query("commit");
  } catch (error) {
    await client.query("rollback");
    throw error;
  } finally {
    client.release();
  }
}

for (const item of ["tea", "cake"]) {
  await transaction(async (tx) => {
    await tx.query("insert into orders values ($1)", [item]);
    await packing.withTransaction(tx).send(item);
  });
}

let failures = 1;
const packer = new MailboxLoop({
  mailbox: packing,
  backoff: { minMs: 10 },
  log: silentLog, // it would log the failure
  handler: (message) =>
    transaction(async (tx) => {
      await tx.query("insert into parcels values ($1)", [message.body]);
      await message.withTransaction(tx).acknowledge();
      if (failures-- > 0) throw new Error("rolls back the parcel and the acknowledgement");
    }),
});
const { counts } = await new LoopGroup([packer]).run({ maxMessages: 3 });
const { rows } = await pool.query("select count(*)::int as parcels from parcels");
console.log(`${rows[0].parcels} parcels, ${counts.nacked} retry`);
await pool.query("drop table orders, parcels");
await Promise.all([pool.end(), packing.close()]);
