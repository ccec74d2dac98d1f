import { globSync, readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { assertEquals, assertThrows } from "@std/assert";
import { MIGRATIONS } from "../../../src/engines/sqlite/_schema.ts";
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
