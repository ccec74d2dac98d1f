import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { APPLICATION_ID } from "../../../src/engines/sqlite/_file_identity.ts";
import { migrate, MIGRATIONS } from "../../../src/engines/sqlite/_schema.ts";
import { nodeSqlite, type SqliteDatabase, SqliteMailbox } from "../../../src/engines/sqlite/mod.ts";
import { InvalidParameterError, MailboxConnectionError } from "../../../src/mailbox/errors.ts";
import { TempFolder } from "./_folder.ts";

const valueOf = (database: SqliteDatabase, sql: string) =>
  Object.values(database.prepare(sql).get() as object)[0];

/** Opens a file and tells a setting of the connection. */
async function settingOf(path: string, durability: "normal" | "full", pragma: string) {
  let database!: SqliteDatabase;
  await using _ = await SqliteMailbox.open(path, {
    durability,
    driver: async (path) => database = await nodeSqlite(path),
  });
  return valueOf(database, `PRAGMA ${pragma}`);
}

/** Makes a database that is not ours. */
async function foreignDatabase(path: string, ...statements: string[]) {
  const database = await nodeSqlite(path);
  for (const sql of statements) database.exec(sql);
  return database;
}

describe("a SQLite file", () => {
  it("a SQLite file has the requested durability", async () => {
    using folder = new TempFolder();
    const path = folder.file();
    assertEquals(await settingOf(path, "normal", "synchronous"), 1);
    assertEquals(await settingOf(path, "full", "synchronous"), 2);
    assertEquals(await settingOf(path, "normal", "journal_mode"), "wal");
  });

  it("the queues of one file are independent", async () => {
    using folder = new TempFolder();
    await using a = await SqliteMailbox.open<string>(folder.file(), { name: "a" });
    await using b = await SqliteMailbox.open<string>(folder.file(), { name: "b" });
    await a.sendMany(["a1", "a2"]);
    await b.send("b1", { id: "same" });
    await a.send("a3", { id: "same" });
    assertEquals([await a.approximateCount(), await b.approximateCount()], [3, 1]);
    const [first] = await b.receive({ maxMessages: 10 });
    assertEquals(first?.body, "b1");
    await first!.deadLetter({ reason: "test" });
    assertEquals(await a.purge(), 3);
    assertEquals(await b.approximateCount(), 0);
    await using dead = await SqliteMailbox.open<{ body: string }>(folder.file(), {
      name: "b.dead",
    });
    assertEquals((await dead.receive())[0]?.body.body, "b1");
  });

  it("invalid options are refused before the file is created", async () => {
    using folder = new TempFolder();
    const open = (options: object) => SqliteMailbox.open(folder.file(), options);
    await assertRejects(() => open({ name: "it's" }), TypeError, `got "it's"`);
    await assertRejects(() => open({ durability: "none" }), TypeError, '"none"');
    await assertRejects(() => open({ maxSize: -1 }), RangeError, "maxSize");
    await assertRejects(() => open({ pollIntervalMs: 0 }), RangeError, "pollIntervalMs");
    await assertRejects(() => SqliteMailbox.open(":memory:"), InvalidParameterError, "InMemory");
    await assertRejects(() => SqliteMailbox.open(""), InvalidParameterError, 'got ""');
    assertEquals(readdirSync(folder.path), []);
  });

  it("several mailboxes can create the same file at the same time", async () => {
    using folder = new TempFolder();
    const open = () => SqliteMailbox.open<number>(folder.file());
    const mailboxes = await Promise.all(Array.from({ length: 8 }, open));
    await Promise.all(mailboxes.map((mailbox, i) => mailbox.send(i)));
    assertEquals(await mailboxes[0]!.approximateCount(), 8);
    await Promise.all(mailboxes.map((mailbox) => mailbox.close()));
  });

  it("messages, attempts and checkpoints survive a close", async () => {
    using folder = new TempFolder();
    {
      await using mailbox = await SqliteMailbox.open<number>(folder.file());
      await mailbox.sendMany([1, 2, 3]);
      const [one, two] = await mailbox.receive({ maxMessages: 2 });
      await one!.acknowledge();
      await two!.saveCheckpoint({ page: 7 });
      await two!.nack();
    }
    await using mailbox = await SqliteMailbox.open<number>(folder.file());
    assertEquals(await mailbox.approximateCount(), 2);
    const messages = await mailbox.receive({ maxMessages: 10 });
    assertEquals(
      messages.map(({ body, deliveryCount, checkpoint }) => [body, deliveryCount, checkpoint]),
      [[2, 2, { page: 7 }], [3, 1, undefined]],
    );
  });

  it("close leaves no file beside the database", async () => {
    using folder = new TempFolder();
    const mailbox = await SqliteMailbox.open<number>(folder.file());
    const unread = mailbox.receive({ waitTimeMs: 60_000 });
    void mailbox.send(1);
    void mailbox.deadLetters.receive({ waitTimeMs: 60_000 });
    await mailbox.close();
    await unread;
    assertEquals(readdirSync(folder.path), ["jobs.db"]);
  });

  it("a missing folder and a folder as path are refused", async () => {
    using folder = new TempFolder();
    const open = (name: string) => SqliteMailbox.open(folder.file(name));
    await assertRejects(() => open("no/jobs.db"), MailboxConnectionError, "create the folder");
    mkdirSync(folder.file("jobs.db"));
    await assertRejects(() => open("jobs.db"), MailboxConnectionError, "jobs.db");
  });

  it("a file that is no database is refused and not changed", async () => {
    using folder = new TempFolder();
    for (
      const content of ["not a database, by any means. ".repeat(200), "tiny", "\0".repeat(512)]
    ) {
      writeFileSync(folder.file(), content);
      await assertRejects(
        () => SqliteMailbox.open(folder.file()),
        MailboxConnectionError,
        "is not a mailbox file and was not changed",
      );
      assertEquals(readFileSync(folder.file(), "utf8"), content);
      assertEquals(readdirSync(folder.path), ["jobs.db"]);
    }
  });

  const foreign: readonly (readonly [what: string, ...statements: string[]])[] = [
    ["tables", "CREATE TABLE diary (entry)"],
    ["an application id", "PRAGMA application_id = 7"],
    ["tables and a journal", "PRAGMA journal_mode = WAL", "CREATE TABLE diary (entry)"],
  ];
  for (const [what, ...statements] of foreign) {
    it(`a database with ${what} of another program is refused and not changed`, async () => {
      using folder = new TempFolder();
      const database = await foreignDatabase(folder.file(), ...statements);
      const files = () => readdirSync(folder.path).map((it) => [it, readFileSync(folder.file(it))]);
      // Once while it is open, with all that lies beside it, and once at rest.
      for (const step of [() => {}, () => database.close()]) {
        step();
        const before = files();
        await assertRejects(
          () => SqliteMailbox.open(folder.file()),
          MailboxConnectionError,
          "is not a mailbox file",
        );
        assertEquals(files(), before);
      }
    });
  }

  it("a damaged file is refused and not changed", async () => {
    using folder = new TempFolder();
    await (await SqliteMailbox.open<number>(folder.file())).close();
    const damaged = readFileSync(folder.file()).fill(0xff, 100, 4_096);
    writeFileSync(folder.file(), damaged);
    await assertRejects(
      () => SqliteMailbox.open(folder.file()),
      MailboxConnectionError,
      "malformed",
    );
    assert(readFileSync(folder.file()).equals(damaged));
  });

  it("a file of a later version is refused and not changed", async () => {
    using folder = new TempFolder();
    await (await SqliteMailbox.open(folder.file())).close();
    const database = await nodeSqlite(folder.file());
    database.exec("PRAGMA user_version = 99");
    database.close();
    const before = readFileSync(folder.file());
    const error = await assertRejects(
      () => SqliteMailbox.open(folder.file()),
      MailboxConnectionError,
    );
    assertStringIncludes(error.message, "has version 99 of the schema and this package knows 4");
    assert(readFileSync(folder.file()).equals(before));
  });

  it("migrations run in order and keep the messages", async () => {
    using folder = new TempFolder();
    const mailbox = await SqliteMailbox.open<number>(folder.file());
    await mailbox.send(1);
    await mailbox.close();
    const later = [
      ...MIGRATIONS,
      "ALTER TABLE message ADD COLUMN colour TEXT",
      "CREATE TABLE more (a); INSERT INTO more VALUES (1)",
    ];
    const database = await nodeSqlite(folder.file());
    migrate(database, folder.file(), later);
    migrate(database, folder.file(), later);
    assertEquals(valueOf(database, "PRAGMA user_version"), later.length);
    assertEquals(valueOf(database, "PRAGMA application_id"), APPLICATION_ID);
    assertEquals(valueOf(database, "SELECT count(*) FROM message WHERE colour IS NULL"), 1);
    assertEquals(valueOf(database, "SELECT count(*) FROM more"), 1);
    database.close();
  });

  it("a failed migration leaves the file at its version", async () => {
    using folder = new TempFolder();
    await (await SqliteMailbox.open(folder.file())).close();
    const database = await nodeSqlite(folder.file());
    const broken = [...MIGRATIONS, "CREATE TABLE more (a)", "CREATE TABLE more (a)"];
    let failed = false;
    try {
      migrate(database, folder.file(), broken);
    } catch {
      failed = true;
    }
    assert(failed);
    assertEquals(valueOf(database, "PRAGMA user_version"), MIGRATIONS.length);
    assertEquals(valueOf(database, "SELECT count(*) FROM sqlite_schema WHERE name = 'more'"), 0);
    database.close();
  });
});
