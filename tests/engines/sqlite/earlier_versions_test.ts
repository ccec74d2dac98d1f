import { globSync, readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { assertEquals, assertThrows } from "@std/assert";
import {
  migrateShared,
  MIGRATIONS,
  SHARED_MIGRATIONS,
} from "../../../src/engines/sqlite/_schema.ts";
import { anyDriver } from "../../../src/engines/sqlite/drivers.ts";
import { type SqliteDatabase, SqliteMailbox } from "../../../src/engines/sqlite/mod.ts";
import { VirtualClock } from "../../../src/testing/virtual_clock.ts";
import { workOff } from "../_kept_data.ts";
import { TempFolder } from "./_folder.ts";

const fixtures = new URL("./fixtures/", import.meta.url);

/** Some seconds after the files were written: all leases and delays have passed. */
const NOW = 1_794_986_900_000;

/** Restores the file of a version, and returns it open. */
async function fileOf(version: number, folder: TempFolder): Promise<SqliteDatabase> {
  const database = await anyDriver(folder.file());
  database.exec(readFileSync(new URL(`schema_${version}.sql`, fixtures), "utf8"));
  return database;
}

describe("SQLite files of earlier versions", () => {
  it("a file is kept for every version of the schema", () => {
    assertEquals(globSync("schema_*.sql", { cwd: fixtures }).length, MIGRATIONS.length);
  });

  for (const version of MIGRATIONS.map((_, index) => index + 1)) {
    it(`a file with schema version ${version} is worked off`, async () => {
      using folder = new TempFolder();
      (await fileOf(version, folder)).close();
      const clock = new VirtualClock(NOW);
      const options = { name: "orders", clock };
      await using orders = await SqliteMailbox.open<unknown>(folder.file(), options);
      await workOff(orders, clock);
    });
  }

  it("a file with schema version 3 keeps keys, priorities, remembered ids and pauses", async () => {
    using folder = new TempFolder();
    (await fileOf(3, folder)).close();
    const clock = new VirtualClock(NOW);
    await using kitchen = await SqliteMailbox.open<string>(folder.file(), {
      name: "kitchen",
      clock,
    });
    const rounds: unknown[] = [];
    for (;;) {
      const messages = await kitchen.receive({ maxMessages: 10 });
      if (messages.length === 0) break;
      rounds.push(messages.map(({ body, deliveryCount }) => [body, deliveryCount]));
      await kitchen.acknowledgeMany(messages);
    }
    assertEquals(rounds, [
      [["fire", 1], ["peas 1", 2], ["salt", 1]],
      [["peas 2", 1]],
      [["peas later", 1]],
    ]);
    const again = await kitchen.send("once more", { id: "once", dedupMs: 1_000 });
    assertEquals(again.stored, false);
    await using cellar = await SqliteMailbox.open<string>(folder.file(), { name: "cellar", clock });
    assertEquals(await cellar.receive(), []);
    await cellar.resume();
    assertEquals((await cellar.receive())[0]?.body, "wine");
  });

  it("a file with schema version 4 keeps expired leases, pauses and limits, and its owners are judged", async () => {
    using folder = new TempFolder();
    (await fileOf(4, folder)).close();
    const clock = new VirtualClock(NOW);
    const open = (name: string) => SqliteMailbox.open<string>(folder.file(), { name, clock });
    await using larder = await open("larder");
    const { paused, pausedForMs } = await larder.stats();
    assertEquals([paused, pausedForMs], [true, 50_000]);
    await using oven = await open("oven");
    assertEquals((await oven.stats()).rateLimit, { max: 2, perMs: 3_600_000 });
    assertEquals((await oven.receive({ maxMessages: 10 })).map(({ body }) => body), ["pie 2"]);
    await using stove = await open("stove");
    // Its lease has 290 seconds left, and nothing locks the file of its owner.
    const [stew] = await clock.until(stove.receive({ waitTimeMs: 10_000 }));
    assertEquals([stew?.body, stew?.deliveryCount, stew?.leaseExpiries], ["stew", 3, 2]);
  });

  it("a file with schema version 1 of a program's database keeps its pauses", async () => {
    using folder = new TempFolder();
    const database = await anyDriver(folder.file());
    migrateShared(database, folder.file(), SHARED_MIGRATIONS.slice(0, 1));
    database.exec(`INSERT INTO lastcall_queue VALUES ('cellar', 1, 1), ('kitchen', 1, 0);
      INSERT INTO lastcall_message (queue, due_at, chosen, id, enqueued_at, body)
        VALUES ('cellar', 0, 0, 'a', 1, '"wine"'), ('kitchen', 0, 0, 'b', 1, '"salt"');
      CREATE TABLE gone (a); CREATE VIEW broken AS SELECT a FROM gone; DROP TABLE gone;`);
    database.close();
    const open = (name: string) =>
      SqliteMailbox.open<string>(folder.file(), { name, sharedFile: true });
    await using cellar = await open("cellar");
    assertEquals((await cellar.stats()).paused, true);
    assertEquals(await cellar.receive(), []);
    await cellar.resume();
    assertEquals((await cellar.receive())[0]?.body, "wine");
    await using kitchen = await open("kitchen");
    assertEquals((await kitchen.receive())[0]?.body, "salt");
  });

  it("a worker of version 3 that has the file open can settle after the migration, but not receive", async () => {
    using folder = new TempFolder();
    const worker = await fileOf(3, folder);
    const receive = worker.prepare(
      `SELECT min(due_at) AS due_at FROM message INDEXED BY due
        WHERE queue = 'orders' AND (SELECT paused FROM queue WHERE name = 'orders') IS NOT 1`,
    );
    const acknowledge = worker.prepare("DELETE FROM message WHERE seq = ? AND nonce = ?");
    const find = worker.prepare("SELECT seq, nonce FROM message WHERE id = 'own-1'");
    const { seq, nonce } = find.get() as { readonly seq: number; readonly nonce: number };
    await (await SqliteMailbox.open(folder.file(), { name: "orders" })).close();
    assertThrows(() => receive.all(), Error, "paused");
    assertEquals(Number(acknowledge.run(seq, nonce).changes), 1);
    worker.close();
  });

  it("a worker of version 2 that has the file open can settle after the migration, but not receive", async () => {
    using folder = new TempFolder();
    const worker = await fileOf(2, folder);
    const receive = worker.prepare(
      `SELECT seq, id, body, meta, deliveries, enqueued_at, checkpoint FROM message INDEXED BY line
        WHERE queue = 'orders' AND due_at = 0 ORDER BY seq LIMIT 1`,
    );
    const acknowledge = worker.prepare("DELETE FROM message WHERE seq = ? AND nonce = ?");
    const find = worker.prepare("SELECT seq, nonce FROM message WHERE id = 'own-1'");
    const { seq, nonce } = find.get() as { readonly seq: number; readonly nonce: number };
    await (await SqliteMailbox.open(folder.file(), { name: "orders" })).close();
    assertThrows(() => receive.all(), Error, "line");
    assertEquals(Number(acknowledge.run(seq, nonce).changes), 1);
    worker.close();
  });

  it("a worker of 0.1 that has the file open can settle after the migration, but not send or receive", async () => {
    using folder = new TempFolder();
    const worker = await fileOf(1, folder);
    const send = worker.prepare(
      `INSERT INTO message (queue, due_at, chosen, id, enqueued_at, reply_to, checkpoint, body)
        VALUES ('orders', 0, 0, 'a', 1, NULL, NULL, '1')`,
    );
    const receive = worker.prepare("SELECT seq, id, reply_to, body FROM message");
    const acknowledge = worker.prepare("DELETE FROM message WHERE seq = ? AND nonce = ?");
    const find = worker.prepare("SELECT seq, nonce FROM message WHERE id = 'own-1'");
    const { seq, nonce } = find.get() as { readonly seq: number; readonly nonce: number };
    await (await SqliteMailbox.open(folder.file(), { name: "orders" })).close();
    assertThrows(() => send.run(), Error, "reply_to");
    assertThrows(() => receive.all(), Error, "reply_to");
    assertEquals(Number(acknowledge.run(seq, nonce).changes), 1);
    const version = worker.prepare("PRAGMA user_version").get();
    assertEquals(Object.values(version as object), [MIGRATIONS.length], "0.1 refuses to open it");
    worker.close();
  });
});
