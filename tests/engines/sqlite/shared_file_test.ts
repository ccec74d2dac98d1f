import { describe, it } from "node:test";
import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { openMailbox } from "../../../mod.ts";
import { nodeSqlite, type SqliteDatabase, SqliteMailbox } from "../../../src/engines/sqlite/mod.ts";
import { openExtender } from "../../../src/engines/sqlite/sqlite_mailbox.ts";
import { MailboxConnectionError } from "../../../src/mailbox/errors.ts";
import { TempFolder } from "./_folder.ts";

const valueOf = (database: SqliteDatabase, sql: string) =>
  Object.values(database.prepare(sql).get() as object)[0];

/** Makes the database of a program that numbers its versions. */
async function programOf(path: string): Promise<SqliteDatabase> {
  const database = await nodeSqlite(path);
  database.exec("PRAGMA application_id = 7");
  database.exec("PRAGMA user_version = 12");
  // The names of the tables in a file of the package do not disturb.
  database.exec("CREATE TABLE message (text TEXT); CREATE TABLE queue (length INTEGER)");
  database.exec("INSERT INTO message VALUES ('mine')");
  return database;
}

describe("a mailbox in the database of a program", () => {
  it("a mailbox is stored beside the tables of a program, which are not changed", async () => {
    using folder = new TempFolder();
    const program = await programOf(folder.file());
    for (let opened = 1; opened <= 2; opened++) {
      await using mailbox = await SqliteMailbox.open<number>(folder.file(), { sharedFile: true });
      await mailbox.send(opened);
      assertEquals(await mailbox.approximateCount(), opened);
    }
    assertEquals(valueOf(program, "PRAGMA application_id"), 7);
    assertEquals(valueOf(program, "PRAGMA user_version"), 12);
    assertEquals(valueOf(program, "SELECT text FROM message"), "mine");
    const names = program.prepare("SELECT name FROM sqlite_schema WHERE sql IS NOT NULL").all();
    for (const { name } of names as { readonly name: string }[]) {
      assertMatch(name, /^(message|queue|lastcall_\w+|sqlite_sequence)$/);
    }
    program.close();
  });

  it("a URL can name the database of a program", async () => {
    using folder = new TempFolder();
    (await programOf(folder.file())).close();
    const url = `sqlite:${folder.file()}?queue=orders&sharedFile=true`;
    await using mailbox = await openMailbox<number>(url);
    await mailbox.send(1);
    assertEquals((await mailbox.receive())[0]?.body, 1);
    await assertRejects(() => openMailbox(`sqlite:${folder.file()}`), Error, "`sharedFile: true`");
  });

  it("several mailboxes can create their tables at the same time", async () => {
    using folder = new TempFolder();
    (await programOf(folder.file())).close();
    const open = () => SqliteMailbox.open<number>(folder.file(), { sharedFile: true });
    const mailboxes = await Promise.all(Array.from({ length: 8 }, open));
    await Promise.all(mailboxes.map((mailbox, i) => mailbox.send(i)));
    assertEquals(await mailboxes[0]!.approximateCount(), 8);
    await Promise.all(mailboxes.map((mailbox) => mailbox.close()));
  });

  it("a file of the package is not used as the database of a program", async () => {
    using folder = new TempFolder();
    await (await SqliteMailbox.open<number>(folder.file())).close();
    await assertRejects(
      () => SqliteMailbox.open(folder.file(), { sharedFile: true }),
      MailboxConnectionError,
      "open it without `sharedFile`",
    );
  });

  it("tables of a later version are refused", async () => {
    using folder = new TempFolder();
    await (await SqliteMailbox.open(folder.file(), { sharedFile: true })).close();
    const database = await nodeSqlite(folder.file());
    database.exec("UPDATE lastcall_schema SET version = 99");
    database.close();
    await assertRejects(
      () => SqliteMailbox.open(folder.file(), { sharedFile: true }),
      MailboxConnectionError,
      "has version 99 of the schema and this package knows 2",
    );
  });

  it("another thread extends leases in the database of a program", async () => {
    using folder = new TempFolder();
    await using mailbox = await SqliteMailbox.open<number>(folder.file(), { sharedFile: true });
    await mailbox.send(1);
    const [message] = await mailbox.receive();
    const extender = await openExtender(mailbox.offThread()!.options as never);
    assertEquals(await extender.extend([message!.receiptHandle], 400_000), [true]);
    await extender.close();
  });
});
