import { readdirSync } from "node:fs";
import { describe, it } from "node:test";
import { assertEquals, assertRejects } from "@std/assert";
import { anyDriver } from "../../../src/engines/sqlite/drivers.ts";
import { nodeSqlite, SqliteMailbox } from "../../../src/engines/sqlite/mod.ts";
import { MailboxConnectionError } from "../../../src/mailbox/errors.ts";
import { TempFolder } from "./_folder.ts";

/** Not literals: the runtimes would look for these before the test begins. */
const missing = ["node:no_such_module", "no-such:scheme", "no-such-package"].map(
  (name: string) => async () => await import(name),
);

describe("a SQLite driver", () => {
  it("anyDriver uses the first available driver", async () => {
    using folder = new TempFolder();
    const database = await anyDriver(folder.file(), [...missing, nodeSqlite]);
    assertEquals(Object.values(database.prepare("SELECT 7").get() as object), [7]);
    database.close();
  });

  it("the error without a driver says what to install", async () => {
    using folder = new TempFolder();
    await assertRejects(
      () => SqliteMailbox.open(folder.file(), { driver: (path) => anyDriver(path, missing) }),
      MailboxConnectionError,
      "or `npm install better-sqlite3`",
    );
    assertEquals(readdirSync(folder.path), []);
  });

  it("anyDriver reports a driver that fails and does not try the next one", async () => {
    const broken = () => Promise.reject(new Error("wrong version of the module"));
    await assertRejects(() => anyDriver("jobs.db", [broken, nodeSqlite]), Error, "wrong version");
  });
});
