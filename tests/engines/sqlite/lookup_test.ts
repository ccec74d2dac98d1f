import { describe, it } from "node:test";
import { assertEquals, assertMatch } from "@std/assert";
import { BLOCKED, migrate } from "../../../src/engines/sqlite/_schema.ts";
import { statementTexts } from "../../../src/engines/sqlite/_statements.ts";
import { nodeSqlite, type SqliteDatabase, SqliteMailbox } from "../../../src/engines/sqlite/mod.ts";
import { TempFolder } from "./_folder.ts";

/** Those that may read a whole table, because it has a row per queue or owner, or of the last minute. */
const SMALL = [
  ...["queues", "allQueues", "lastCancelled", "pruneCancelled", "dropCancelled", "hasIdIndex"],
  "owners",
];

function planOf(database: SqliteDatabase, sql: string): string {
  const rows = database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all() as { readonly detail: string }[];
  return rows.map(({ detail }) => detail).join("\n");
}

function hasIndex(database: SqliteDatabase): boolean {
  return Boolean(
    database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'generated_id'").get(),
  );
}

describe("searches in a SQLite file", () => {
  it("no statement reads all messages", async () => {
    using folder = new TempFolder();
    const database = await nodeSqlite(folder.file());
    migrate(database, folder.file());
    database.exec("CREATE INDEX generated_id ON message (id) WHERE chosen = 0");
    for (const [name, sql] of Object.entries(statementTexts(""))) {
      if (SMALL.includes(name) || !/^(SELECT|INSERT|UPDATE|DELETE)/.test(sql)) continue;
      const plan = planOf(database, sql);
      const scans = plan.split("\n").filter((line) =>
        /SCAN (message|remembered|queue|control|owner)\b/.test(line)
      );
      assertEquals(scans, [], `${name}: ${sql}`);
    }
    assertMatch(planOf(database, statementTexts("").findGenerated), /generated_id/);
    database.close();
  });

  it("a generated id in a long queue is found by an index, which is created once", async () => {
    using folder = new TempFolder();
    await using mailbox = await SqliteMailbox.open<number>(folder.file());
    await using other = await SqliteMailbox.open<number>(folder.file());
    const database = await nodeSqlite(folder.file());
    const sent = await mailbox.sendMany(Array.from({ length: 1_000 }, (_, i) => i));
    assertEquals((await mailbox.get(sent[700]!.id))?.body, 700);
    assertEquals(hasIndex(database), false, "a short queue needs none");
    await mailbox.send(1_000);
    assertEquals((await mailbox.get(sent[700]!.id))?.body, 700);
    assertEquals(hasIndex(database), true);
    assertEquals((await other.get(sent[999]!.id))?.body, 999);
    assertEquals(await other.cancel(sent[999]!.id), true);
    assertEquals(await mailbox.get(sent[999]!.id), undefined);
    assertEquals(await mailbox.approximateCount(), 1_000);
    database.close();
  });

  it("the first cancel of a generated id in a long queue creates the index, too", async () => {
    using folder = new TempFolder();
    await using mailbox = await SqliteMailbox.open<number>(folder.file());
    const sent = await mailbox.sendMany(Array.from({ length: 1_001 }, (_, i) => i));
    const cancelled = await Promise.all([
      mailbox.cancel(sent[5]!.id),
      mailbox.cancel(sent[5]!.id),
      mailbox.cancel("unknown"),
    ]);
    assertEquals(cancelled, [true, false, false]);
    assertEquals((await mailbox.receive({ maxMessages: 6 })).at(-1)?.body, 6);
  });

  it("blocked messages are later than any delay", () => {
    const tenYearsMs = 315_360_000_000;
    assertEquals(Date.now() + 100 * tenYearsMs < BLOCKED, true);
  });
});
