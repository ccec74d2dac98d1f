import { describe, it } from "node:test";
import { assert, assertEquals, assertGreater, assertRejects } from "@std/assert";
import { nextTurn } from "../../../src/clock.ts";
import { nodeSqlite, type SqliteDriver, SqliteMailbox } from "../../../src/engines/sqlite/mod.ts";
import {
  MailboxClosedError,
  MailboxConnectionError,
  MailboxFullError,
} from "../../../src/mailbox/errors.ts";
import { VirtualClock } from "../../../src/testing/mod.ts";
import { TempFolder } from "./_folder.ts";

/** A driver that calls `before` with every statement that is run. */
function watched(before: (sql: string) => void): SqliteDriver {
  return async (path) => {
    const database = await nodeSqlite(path);
    return {
      exec: (sql) => database.exec(sql),
      close: () => database.close(),
      prepare(sql) {
        const statement = database.prepare(sql);
        return {
          get: (...values) => statement.get(...values),
          all: (...values) => statement.all(...values),
          run(...values) {
            before(sql);
            return statement.run(...values);
          },
        };
      },
    };
  };
}

describe("changes of a SQLite file", () => {
  it("changes of one turn of the event loop share a commit", async () => {
    using folder = new TempFolder();
    let commits = 0;
    const driver = watched((sql) => void (sql === "COMMIT" && commits++));
    await using mailbox = await SqliteMailbox.open<number>(folder.file(), { driver });
    // The first delivery registers the process with the file.
    await mailbox.send(0);
    await (await mailbox.receive())[0]!.acknowledge();
    commits = 0;
    await Promise.all(Array.from({ length: 100 }, (_, i) => mailbox.send(i)));
    assertEquals(commits, 1);
    const messages = await mailbox.receive({ maxMessages: 100 });
    assertEquals(messages.map(({ body }) => body), Array.from({ length: 100 }, (_, i) => i));
    await Promise.all(messages.map((message) => message.acknowledge()));
    assertEquals(commits, 3);
    assertEquals(await mailbox.approximateCount(), 0);
  });

  it("sends of different callbacks in one turn share a commit, in their order", async () => {
    using folder = new TempFolder();
    let commits = 0;
    const driver = watched((sql) => void (sql === "COMMIT" && commits++));
    await using mailbox = await SqliteMailbox.open<number>(folder.file(), { driver, maxSize: 91 });
    await mailbox.send(-1); // the first commit takes long
    await nextTurn();
    commits = 0;
    const sending = Array.from({ length: 100 }, async (_, i) => {
      await nextTurn();
      await mailbox.send(i);
    });
    const results = await Promise.allSettled(sending);
    // The first begins at once. Not every runtime calls all callbacks in one turn.
    assertGreater(5, commits);
    assertEquals(results.map(({ status }) => status), [
      ...new Array(90).fill("fulfilled"),
      ...new Array(10).fill("rejected"),
    ]);
    const messages = await mailbox.receive({ maxMessages: 100 });
    assertEquals(messages.map(({ body }) => body), Array.from({ length: 91 }, (_, i) => i - 1));
  });

  it("a send that comes alone is stored in the same turn", async () => {
    using folder = new TempFolder();
    const clock = new VirtualClock(); // a slow machine does not end the turn early
    await using mailbox = await SqliteMailbox.open<number>(folder.file(), { clock });
    for (let i = 0; i < 3; i++) {
      await nextTurn();
      await nextTurn();
      let isOver = false;
      void nextTurn().then(() => isOver = true);
      await mailbox.send(i);
      assert(!isOver);
    }
  });

  it("a send resolves after its commit, and other connections see the message then", async () => {
    using folder = new TempFolder();
    await using mailbox = await SqliteMailbox.open<number>(folder.file());
    await using other = await SqliteMailbox.open<number>(folder.file());
    const sent = mailbox.send(1);
    assertEquals(await other.approximateCount(), 0);
    await sent;
    assertEquals(await other.approximateCount(), 1);
  });

  it("a full queue refuses each send by itself, also within a shared commit", async () => {
    using folder = new TempFolder();
    await using mailbox = await SqliteMailbox.open<number>(folder.file(), { maxSize: 2 });
    await using other = await SqliteMailbox.open<number>(folder.file(), { maxSize: 2 });
    const results = await Promise.allSettled([
      mailbox.send(1),
      mailbox.sendMany([2, 3]),
      mailbox.send(2),
      mailbox.send(3),
      other.send(4),
    ]);
    const refused = results.map((it) => it.status === "rejected" && it.reason.name);
    assertEquals(refused, [
      false,
      "MailboxFullError",
      false,
      "MailboxFullError",
      "MailboxFullError",
    ]);
    await assertRejects(() => other.send(5), MailboxFullError, "it holds 2 of 2 messages");
    assertEquals((await mailbox.receive({ maxMessages: 9 })).map(({ body }) => body), [1, 2]);
  });

  for (const failing of ["INSERT INTO message", "COMMIT"]) {
    it(`a failing ${failing} rolls back all changes of the commit, and the next commit succeeds`, async () => {
      using folder = new TempFolder();
      let broken = false;
      const driver = watched((sql) => {
        if (broken && sql.startsWith(failing)) throw new Error("disk I/O error");
      });
      await using mailbox = await SqliteMailbox.open<number>(folder.file(), { driver });
      await mailbox.send(0);
      broken = true;
      const [zero] = await SqliteMailbox.open<number>(folder.file()).then(async (other) => {
        await using _ = other;
        return await other.receive({ visibilityTimeoutMs: 0 });
      });
      assertEquals(zero?.body, 0);
      const results = await Promise.allSettled([mailbox.purge(), mailbox.send(1)]);
      for (const result of results) {
        assert(result.status === "rejected" && result.reason instanceof MailboxConnectionError);
        assert(result.reason.message.endsWith("failed: disk I/O error"));
        assertEquals((result.reason.cause as Error).message, "disk I/O error");
      }
      assertEquals(await mailbox.approximateCount(), 1);
      broken = false;
      await mailbox.send(1);
      assertEquals(await mailbox.approximateCount(), 2);
    });
  }

  it("a change waits while another connection locks the file, and fails after 5 s", async () => {
    using folder = new TempFolder();
    const clock = new VirtualClock();
    await using mailbox = await SqliteMailbox.open<number>(folder.file(), { clock });
    const holder = await nodeSqlite(folder.file());
    holder.exec("BEGIN IMMEDIATE");
    const sent = mailbox.send(1);
    await clock.advance(4_000);
    assertEquals(await mailbox.approximateCount(), 0, "reading goes on");
    holder.exec("COMMIT");
    await clock.until(sent);
    assertEquals(await mailbox.approximateCount(), 1);

    holder.exec("BEGIN IMMEDIATE");
    const began = clock.monotonic();
    await assertRejects(() => clock.until(mailbox.send(2)), MailboxConnectionError, "is locked");
    assertGreater(clock.monotonic() - began, 4_999);
    holder.exec("COMMIT");
    holder.close();
    await mailbox.send(3);
    assertEquals(await mailbox.approximateCount(), 2);
  });

  it("close waits for pending changes, also while another connection locks the file", async () => {
    using folder = new TempFolder();
    const clock = new VirtualClock();
    const mailbox = await SqliteMailbox.open<number>(folder.file(), { clock });
    const holder = await nodeSqlite(folder.file());
    holder.exec("BEGIN IMMEDIATE");
    const sent = mailbox.send(1);
    const closed = mailbox.close();
    await clock.advance(1_000);
    holder.exec("COMMIT");
    holder.close();
    await clock.until(sent);
    await closed;
    await using again = await SqliteMailbox.open<number>(folder.file());
    assertEquals(await again.approximateCount(), 1);
  });

  it("sends in quick succession do not starve timers", async () => {
    using folder = new TempFolder();
    await using mailbox = await SqliteMailbox.open<number>(folder.file());
    let rang = false;
    setTimeout(() => rang = true, 1);
    let sent = 0;
    while (!rang && sent < 100_000) await mailbox.send(sent++);
    assert(rang, `${sent} messages were sent before the timer`);
  });

  it("close completes earlier changes and refuses later ones", async () => {
    using folder = new TempFolder();
    const mailbox = await SqliteMailbox.open<number>(folder.file());
    await mailbox.send(1);
    const [message] = await mailbox.receive();
    const acknowledged = message!.acknowledge();
    const sent = mailbox.send(2);
    await mailbox.close();
    await Promise.all([acknowledged, sent]);
    await assertRejects(() => mailbox.send(3), MailboxClosedError);
    await using again = await SqliteMailbox.open<number>(folder.file());
    const [second] = await again.receive();
    assertEquals([second?.body, await again.approximateCount()], [2, 1]);
    await again.close();
    await assertRejects(
      () => second!.acknowledge(),
      MailboxClosedError,
      "this mailbox has closed it",
    );
  });
});
