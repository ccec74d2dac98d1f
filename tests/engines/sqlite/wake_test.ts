import { describe, it } from "node:test";
import { assertEquals, assertGreater } from "@std/assert";
import { nodeSqlite, type SqliteDriver, SqliteMailbox } from "../../../src/engines/sqlite/mod.ts";
import { VirtualClock } from "../../../src/testing/mod.ts";
import { TempFolder } from "./_folder.ts";

describe("a receiver that waits at a SQLite file", () => {
  it("a send of another mailbox in this process wakes a receiver without a poll", async () => {
    using folder = new TempFolder();
    const clock = new VirtualClock();
    await using mailbox = await SqliteMailbox.open<string>(folder.file(), { clock });
    await using sender = await SqliteMailbox.open<string>(folder.file(), { clock });
    const received = mailbox.receive({ waitTimeMs: 60_000 });
    await clock.settle();
    await sender.send("tea");
    assertEquals((await received)[0]?.body, "tea"); // the clock stands still
  });

  it("a receiver can wait for dead letters", async () => {
    using folder = new TempFolder();
    const clock = new VirtualClock();
    await using mailbox = await SqliteMailbox.open<string>(folder.file(), { clock });
    const received = mailbox.deadLetters.receive({ waitTimeMs: 60_000 });
    await clock.settle();
    await mailbox.send("tea");
    await (await mailbox.receive())[0]!.deadLetter({ reason: "cold" });
    assertEquals((await received)[0]?.body.reason, "cold");
  });

  it("a mailbox polls for changes of other processes only while a receiver waits", async () => {
    using folder = new TempFolder();
    const clock = new VirtualClock();
    let looks = 0;
    const driver: SqliteDriver = async (path) => {
      const database = await nodeSqlite(path);
      return {
        exec: (sql) => database.exec(sql),
        close: () => database.close(),
        prepare(sql) {
          const statement = database.prepare(sql);
          if (!sql.includes("data_version")) return statement;
          return {
            run: (...values) => statement.run(...values),
            all: (...values) => statement.all(...values),
            get: (...values) => (looks++, statement.get(...values)),
          };
        },
      };
    };
    await using mailbox = await SqliteMailbox.open<string>(folder.file(), { clock, driver });
    await clock.advance(10_000);
    assertEquals([looks, clock.pending], [0, 0]);

    const receivers = [1, 2, 3].map(() => mailbox.receive({ waitTimeMs: 1_000 }));
    await clock.advance(1_000);
    assertEquals(await Promise.all(receivers), [[], [], []]);
    assertGreater(looks, 15, "about twenty in a second");
    assertGreater(30, looks, "once for all three");

    looks = 0;
    await clock.advance(10_000);
    assertEquals([looks, clock.pending], [0, 0]);
  });

  it("a receiver finds a message that another program has inserted", async () => {
    using folder = new TempFolder();
    const clock = new VirtualClock();
    await using mailbox = await SqliteMailbox.open<string>(folder.file(), { clock });
    const received = mailbox.receive({ waitTimeMs: 60_000 });
    await clock.settle();
    const other = await nodeSqlite(folder.file());
    other.exec(`INSERT INTO message (queue, due_at, chosen, id, enqueued_at, body)
      VALUES ('default', 0, 0, 'a', 1, '"tea"')`);
    other.close();
    const began = clock.monotonic();
    assertEquals((await clock.until(received))[0]?.body, "tea");
    assertGreater(100, clock.monotonic() - began);
  });
});
