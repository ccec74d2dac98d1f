import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { nodeSqlite, SqliteMailbox } from "../../../src/engines/sqlite/mod.ts";
import { VirtualClock } from "../../../src/testing/mod.ts";
import { TempFolder } from "./_folder.ts";

describe("what is left in a SQLite file", () => {
  /** Counts the rows of all tables. */
  async function rowsIn(path: string): Promise<Record<string, unknown>> {
    const database = await nodeSqlite(path);
    const tables = ["message", "queue", "remembered", "cancelled", "control", "owner"];
    const counts = tables.map((name) => {
      const row = database.prepare(`SELECT count(*) FROM ${name}`).get();
      return [name, Object.values(row as object)[0]];
    });
    database.close();
    return Object.fromEntries(counts);
  }

  it("keys without messages leave nothing", async () => {
    using folder = new TempFolder();
    await using mailbox = await SqliteMailbox.open<number>(folder.file());
    await mailbox.sendMany(
      Array.from({ length: 500 }, (_, i) => i),
      (i) => ({ key: `k${i % 250}` }),
    );
    for (let round = 0; round < 2; round++) {
      await mailbox.acknowledgeMany(await mailbox.receive({ maxMessages: 1_000 }));
    }
    assertEquals(await rowsIn(folder.file()), {
      message: 0,
      queue: 1,
      remembered: 0,
      cancelled: 0,
      control: 0,
      owner: 1,
    });
  });

  it("outdated ids are deleted by later sends and cancels", async () => {
    using folder = new TempFolder();
    const clock = new VirtualClock();
    await using mailbox = await SqliteMailbox.open<number>(folder.file(), { clock });
    const send = (from: number) =>
      mailbox.sendMany(Array.from({ length: 50 }, (_, i) => from + i), (i) => ({
        id: `id-${i}`,
        dedupMs: 1_000,
      }));
    for (let from = 0; from < 500; from += 50) {
      await send(from);
      for (const { id } of await mailbox.receive({ maxMessages: 50 })) await mailbox.cancel(id);
      await clock.advance(100_000);
    }
    const { message, remembered, cancelled } = await rowsIn(folder.file());
    assertEquals([message, remembered, cancelled], [0, 50, 50]);
  });

  it("the replies to requests leave nothing after a close", async () => {
    using folder = new TempFolder();
    await using mailbox = await SqliteMailbox.open<number>(folder.file(), { name: "orders" });
    const sent = mailbox.request(1, { timeoutMs: 5_000 });
    const [message] = await mailbox.receive({ waitTimeMs: 5_000 });
    await message!.reply("done");
    await message!.acknowledge();
    assertEquals(await sent, "done");
    await mailbox.close();
    assertEquals(await rowsIn(folder.file()), {
      message: 0,
      queue: 1,
      remembered: 0,
      cancelled: 0,
      control: 0,
      owner: 0,
    });
  });

  it("a pause and a limit leave nothing when they have ended", async () => {
    using folder = new TempFolder();
    const clock = new VirtualClock();
    await using mailbox = await SqliteMailbox.open<number>(folder.file(), { clock });
    const control = async () => (await rowsIn(folder.file()))["control"];
    await mailbox.rateLimit({ max: 1, perMs: 1_000 });
    await mailbox.pause();
    assertEquals(await control(), 1);
    await mailbox.resume();
    await mailbox.rateLimit(false);
    assertEquals(await control(), 0);
    await mailbox.send(1);
    await mailbox.pause({ forMs: 1_000 });
    assertEquals(await control(), 1);
    await clock.advance(1_000);
    assertEquals((await mailbox.receive()).length, 1);
    assertEquals(await control(), 0, "of a pause that was over, the first delivery deletes it");
  });
});
