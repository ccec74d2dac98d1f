/**
 * 20. Transactions in SQLite, with `node:sqlite`. The messages are in the file of your tables (`sharedFile`),
 * so that one transaction stores an order and its message, and one stores a parcel and acknowledges.
 *
 *     node examples/20_transactions_sqlite/node_sqlite.ts
 *
 * It ends by itself.
 */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { LoopGroup, MailboxLoop, silentLog } from "../../mod.ts";
import { SqliteMailbox } from "../../src/engines/sqlite/mod.ts";

const folder = await mkdtemp(join(tmpdir(), "lastcall-shop-"));
const db = new DatabaseSync(join(folder, "shop.db"), { timeout: 5_000 });
db.exec("create table orders (item text); create table parcels (item text)");
const options = { name: "packing", sharedFile: true };
const packing = await SqliteMailbox.open<string>(join(folder, "shop.db"), options);

/** Commits, or rolls back when `work` throws. It has no `await` inside: others use the connection, too. */
function transaction(work: () => void): void {
  db.exec("begin immediate");
  try {
    work();
    db.exec("commit");
  } catch (error) {
    db.exec("rollback");
    throw error;
  }
}

for (const item of ["tea", "cake"]) {
  transaction(() => {
    db.prepare("insert into orders values (?)").run(item);
    packing.withTransaction(db).send(item); // runs at once; there is nothing to await
  });
}

let failures = 1;
const packer = new MailboxLoop({
  mailbox: packing,
  backoff: { minMs: 10 },
  log: silentLog, // it would log the failure
  handler: (message) =>
    transaction(() => {
      db.prepare("insert into parcels values (?)").run(message.body);
      message.withTransaction(db).acknowledge();
      if (failures-- > 0) throw new Error("rolls back the parcel and the acknowledgement");
    }),
});
const { counts } = await new LoopGroup([packer]).run({ maxMessages: 3 });
const [row] = db.prepare("select count(*) as parcels from parcels").all();
console.log(`${row?.["parcels"]} parcels, ${counts.nacked} retry`);
await packing.close();
db.close();
await rm(folder, { recursive: true });
