import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { nodeSqlite, SqliteMailbox } from "../../../src/engines/sqlite/mod.ts";
import {
  InvalidParameterError,
  MailboxFullError,
  ReceiptHandleExpiredError,
} from "../../../src/mailbox/errors.ts";
import { VirtualClock } from "../../../src/testing/mod.ts";
import { type Client, clients, effects, type OpenClient } from "./_clients.ts";
import { TempFolder } from "./_folder.ts";

/** A mailbox in the database of a program, and a client of that program. */
class Site implements AsyncDisposable {
  readonly folder = new TempFolder();
  readonly clock = new VirtualClock();
  mailbox!: SqliteMailbox<string>;
  client!: OpenClient;

  static async open({ open }: Client, maxSize = Infinity): Promise<Site> {
    const site = new Site();
    const path = site.folder.file();
    site.client = await open(path);
    const options = { sharedFile: true, clock: site.clock, maxSize };
    site.mailbox = await SqliteMailbox.open<string>(path, options);
    return site;
  }

  get path(): string {
    return this.folder.file();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.mailbox.close();
    await this.client.close();
    this.folder[Symbol.dispose]();
  }
}

class Rollback extends Error {}

for (const client of clients) {
  describe(`a transaction of ${client.name}`, { skip: client.skip }, () => {
    it("a committed transaction stores its messages with its rows, and wakes a receiver", async () => {
      await using site = await Site.open(client);
      const { mailbox, clock } = site;
      const received = mailbox.receive({ maxMessages: 10, waitTimeMs: 60_000 });
      await clock.settle();
      await site.client.transact(async (tx) => {
        const sending = mailbox.withTransaction(tx).sendMany(["a", "b"]);
        await site.client.insert(tx, 1);
        assertEquals((await sending).map(({ stored }) => stored), [true, true]);
      });
      const began = clock.monotonic();
      assertEquals((await clock.until(received)).map(({ body }) => body), ["a", "b"]);
      assert(clock.monotonic() - began < 100, "no later than the next look at the file");
      assertEquals(await effects(site.path), [1]);
      assertEquals((await mailbox.stats()).inFlight, 2);
    });

    it("a transaction that is rolled back sends and acknowledges nothing", async () => {
      await using site = await Site.open(client);
      const { mailbox } = site;
      await mailbox.send("work");
      const [message] = await mailbox.receive();
      const failing = site.client.transact((tx) => {
        const calls = [
          mailbox.withTransaction(tx).send("more"),
          message!.withTransaction(tx).acknowledge(),
        ];
        if (client.synchronous) throw new Rollback();
        return Promise.all<unknown>(calls).then(() => {
          throw new Rollback();
        });
      });
      await assertRejects(() => failing, Rollback);
      assertEquals(await mailbox.approximateCount(), 1);
      assertEquals(await mailbox.receive(), []);
      await message!.nack();
      const [again] = await mailbox.receive();
      assertEquals([again?.body, again?.deliveryCount], ["work", 2]);
    });

    it("a message is acknowledged with the rows of its handler, and its key is unblocked", async () => {
      await using site = await Site.open(client);
      const { mailbox } = site;
      await mailbox.sendMany(["first", "second"], { key: "a" });
      const [message] = await mailbox.receive();
      await site.client.transact(async (tx) => {
        const acknowledging = message!.withTransaction(tx).acknowledge();
        await site.client.insert(tx, 1);
        await acknowledging;
      });
      assertEquals(await effects(site.path), [1]);
      assertEquals(await mailbox.approximateCount(), 1);
      assertEquals((await mailbox.receive())[0]?.body, "second");
    });

    it("a stale acknowledgement rolls back the transaction", async () => {
      await using site = await Site.open(client);
      const { mailbox, clock } = site;
      await mailbox.send("work");
      const [message] = await mailbox.receive({ visibilityTimeoutMs: 1_000 });
      await clock.advance(1_001);
      const failing = site.client.transact((tx) => {
        const inserted = site.client.insert(tx, 1);
        const acknowledging = message!.withTransaction(tx).acknowledge();
        return Promise.all([inserted, acknowledging]);
      });
      await assertRejects(() => failing, ReceiptHandleExpiredError);
      assertEquals(await effects(site.path), []);
      assertEquals((await mailbox.receive())[0]?.deliveryCount, 2);
    });

    it("keys, priorities and windows of deduplication work in a transaction", async () => {
      await using site = await Site.open(client);
      const { mailbox } = site;
      const once = { id: "once", dedupMs: 60_000 };
      const keyed = Array.from({ length: 10 }, (_, i) => `a${i}`);
      await site.client.transact(async (tx) => {
        const { send } = mailbox.withTransaction(tx);
        await Promise.all([
          ...keyed.map((body) => send(body, { key: "a" })),
          send("once", once),
          send("again", once),
          send("urgent", { priority: 9 }),
        ]);
      });
      assertEquals((await mailbox.send("too late", once)).stored, false);
      const bodies = async () => {
        const messages = await mailbox.receive({ maxMessages: 10 });
        await mailbox.acknowledgeMany(messages);
        return messages.map(({ body }) => body);
      };
      assertEquals(await bodies(), ["urgent", "a0", "once"]);
      for (const body of keyed.slice(1)) assertEquals(await bodies(), [body]);
      assertEquals((await mailbox.send("too late", once)).stored, false);
    });

    it("a full queue refuses a send in a transaction, which is rolled back", async () => {
      await using site = await Site.open(client, 1);
      const failing = site.client.transact((tx) => {
        return site.mailbox.withTransaction(tx).sendMany(["a", "b"]);
      });
      await assertRejects(() => failing, MailboxFullError);
      assertEquals(await site.mailbox.approximateCount(), 0);
    });

    it("a transaction on another file is refused", async () => {
      await using site = await Site.open(client);
      const other = await client.open(site.folder.file("other.db"));
      const failing = other.transact((tx) => site.mailbox.withTransaction(tx).send("work"));
      await assertRejects(() => failing, InvalidParameterError, "other.db");
      await other.close();
      assertEquals(await site.mailbox.approximateCount(), 0);
    });
  });
}

describe("an object that is no transaction", () => {
  it("an object that is no client is refused, and so is a database without a transaction", async () => {
    using folder = new TempFolder();
    await using mailbox = await SqliteMailbox.open<string>(folder.file());
    for (const wrong of [undefined, null, 7, {}, { prepare: 1 }, () => {}]) {
      assertThrows(() => mailbox.withTransaction(wrong), InvalidParameterError, "pass a database");
    }
    const database = await nodeSqlite(folder.file());
    const { send } = mailbox.withTransaction(database);
    assertThrows(() => void send("work"), InvalidParameterError, "BEGIN IMMEDIATE");
    // Early versions of node:sqlite do not tell whether there is a transaction.
    const early = { exec: database.exec.bind(database), prepare: database.prepare.bind(database) };
    const inEarly = mailbox.withTransaction(early);
    assertThrows(() => void inEarly.send("work"), InvalidParameterError, "BEGIN IMMEDIATE");
    database.exec("BEGIN IMMEDIATE");
    await inEarly.send("work");
    database.exec("COMMIT");
    database.close();
    assertEquals(await mailbox.approximateCount(), 1);
    const memory = await nodeSqlite(":memory:");
    assertThrows(() => mailbox.withTransaction(memory), InvalidParameterError, "in memory");
    memory.close();
  });

  it("a commit some time after the send wakes a receiver at the next look at the file", async () => {
    using folder = new TempFolder();
    const clock = new VirtualClock();
    await using mailbox = await SqliteMailbox.open<string>(folder.file(), { clock });
    const database = await nodeSqlite(folder.file());
    const received = mailbox.receive({ waitTimeMs: 60_000 });
    await clock.settle();
    database.exec("BEGIN IMMEDIATE");
    await mailbox.withTransaction(database).send("work");
    await clock.advance(1_000);
    database.exec("COMMIT");
    database.close();
    const began = clock.monotonic();
    assertEquals((await clock.until(received))[0]?.body, "work");
    assert(clock.monotonic() - began <= 63, "50 ms, varied by a quarter");
  });

  it("a transaction works on a file of the package, too", async () => {
    using folder = new TempFolder();
    await using mailbox = await SqliteMailbox.open<string>(folder.file());
    const database = await nodeSqlite(folder.file());
    database.exec("BEGIN IMMEDIATE");
    await mailbox.withTransaction(database).send("work");
    assertEquals(await mailbox.approximateCount(), 0);
    database.exec("COMMIT");
    database.close();
    assertEquals(await mailbox.approximateCount(), 1);
  });
});
