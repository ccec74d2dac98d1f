import { globSync, readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { MIGRATIONS } from "../../../src/engines/sqlite/_schema.ts";
import { anyDriver } from "../../../src/engines/sqlite/drivers.ts";
import { SqliteMailbox } from "../../../src/engines/sqlite/mod.ts";
import type { DeadLetter } from "../../../src/mailbox/mailbox.ts";
import { VirtualClock } from "../../../src/testing/virtual_clock.ts";
import { TempFolder } from "./_folder.ts";

const fixtures = new URL("./fixtures/", import.meta.url);

/** Some seconds after the files were written: what was taken then has fallen due. */
const NOW = 1_794_935_400_000;

/** Makes a file as a version has left it. */
async function fileOf(version: number, folder: TempFolder): Promise<string> {
  const database = await anyDriver(folder.file());
  database.exec(readFileSync(new URL(`schema_${version}.sql`, fixtures), "utf8"));
  database.close();
  return folder.file();
}

describe("a SQLite file of an earlier version", () => {
  it("is kept for every version of the schema", () => {
    assertEquals(globSync("schema_*.sql", { cwd: fixtures }).length, MIGRATIONS.length);
  });

  for (const version of MIGRATIONS.map((_, index) => index + 1)) {
    it(`of version ${version} gives back all that is in it`, async () => {
      using folder = new TempFolder();
      const options = { name: "orders", clock: new VirtualClock(NOW) };
      await using orders = await SqliteMailbox.open(await fileOf(version, folder), options);
      assertEquals(await orders.send({ dish: "tea again" }, { id: "own-1" }), "own-1");
      const messages = await orders.receive({ maxMessages: 10 });
      assertEquals(
        messages.map(({ id, body, deliveryCount, replyTo, checkpoint }) => {
          return [id, body, deliveryCount, replyTo, checkpoint];
        }),
        [
          ["6c497930-1", { dish: "soup", n: 1 }, 1, undefined, undefined],
          ["own-1", { dish: "tea 🫖", n: 2 }, 2, "bills", { poured: true }],
          ["6c497930-3", { dish: "bread" }, 2, undefined, undefined],
          ["6c497930-4", { dish: "later" }, 1, undefined, undefined],
        ],
      );
      for (const message of messages) await message.acknowledge();
      assertEquals(await orders.approximateCount(), 0);

      const letters = await orders.deadLetters!.receive({ maxMessages: 10 });
      const told: readonly DeadLetter<unknown>[] = letters.map(({ body }) => body);
      assertEquals(told.map(({ id, body, reason, error }) => [id, body, reason, error]), [
        ["6c497930-2", "poison", "handler_error", "TypeError: no dish"],
      ]);
    });
  }
});
