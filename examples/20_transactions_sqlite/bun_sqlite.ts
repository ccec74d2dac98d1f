/**
 * 20. Transactions in SQLite, with `bun:sqlite`. The messages are in the file of your tables (`sharedFile`),
 * so that one transaction stores an order and its message, and one stores a parcel and acknowledges.
 *
 *     bun examples/20_transactions_sqlite/bun_sqlite.ts
 *
 * It ends by itself. Only Bun has this module.
 */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LoopGroup, MailboxLoop, silentLog } from "../../mod.ts";
import { SqliteMailbox } from "../../src/engines/sqlite/mod.ts";

// In your program: import { Database } from "bun:sqlite";
const MODULE = "bun:sqlite";
const { Database } = await import(MODULE);

const folder = await mkdtemp(join(tmpdir(), "lastcall-shop-"));
const db = new Database(join(folder, "shop.db"), { create: true });
db.exec("pragma busy_timeout = 5000");
db.exec("create table orders (item text); create table parcels (item text)");
const packing = await SqliteMailbox.open<string>(join(folder, "shop.db"), {
  name: "packing",
  sharedFile: true,
});

// A transaction function is synchronous, and so are the calls of lastcall in it.
const order = db.transaction((item: string) => {
  db.query("insert into orders values (?)").run(item);
  packing.withTransaction(db).send(item);
});
for (const item of ["tea", "cake"]) order.immediate(item);

let failures = 1;
const packer = new MailboxLoop({
  mailbox: packing,
  backoff: { minMs: 10 },
  log: silentLog, // it would log the failure
  handler: (message) =>
    db.transaction(() => {
      db.query("insert into parcels values (?)").run(message.body);
      message.withTransaction(db).acknowledge();
      if (failures-- > 0) throw new Error("rolls back the parcel and the acknowledgement");
    }).immediate(),
});
const { counts } = await new LoopGroup([packer]).run({ maxMessages: 3 });
const { parcels } = db.query("select count(*) as parcels from parcels").get();
console.log(`${parcels} parcels, ${counts.nacked} retry`);
await packing.close();
db.close();
await rm(folder, { recursive: true });
