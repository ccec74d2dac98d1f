import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { Connection } from "../../../src/engines/sqlite/_connection.ts";
import {
  bunSqlite,
  nodeSqlite,
  type SqliteDriver,
  SqliteMailbox,
} from "../../../src/engines/sqlite/mod.ts";
import { SqliteEngine } from "../../../src/engines/sqlite/sqlite_engine.ts";
import { systemRandom } from "../../../src/random.ts";
import { type MakeMailbox, skippedMailboxCases, VirtualClock } from "../../../src/testing/mod.ts";
import { hostMailboxCases } from "../../mailbox/_hosts.ts";
import { runtimeName } from "../../signals/_child.ts";
import { TempFolder } from "./_folder.ts";

const make = (driver: SqliteDriver, sharedFile = false): MakeMailbox => async (options) => {
  const folder = new TempFolder();
  const clock = new VirtualClock();
  const path = folder.file();
  const maxBodyBytes = 4_096;
  const own = { name: "orders", clock, driver, maxBodyBytes, sharedFile };
  const open = () => SqliteMailbox.open<unknown>(path, { ...options, ...own });
  return {
    mailbox: await open(),
    tickMs: 1_000,
    pass: (ms) => clock.advance(ms),
    sibling: open,
    async sendRaw(body) {
      const fileOptions = { driver, durability: "normal", clock, sharedFile } as const;
      const connection = new Connection(path, fileOptions, 50);
      await connection.open();
      const engine = new SqliteEngine("orders", connection, {
        clock,
        random: systemRandom,
        maxSize: Infinity,
      });
      await engine.send([{ id: crypto.randomUUID(), body, delayMs: 0, dedup: false }]);
      await engine.close();
    },
    maxBodyBytes,
    close() {
      folder[Symbol.dispose]();
      return Promise.resolve(assertEquals(clock.pending, 0, "timers are left"));
    },
  };
};

const drivers = runtimeName === "bun" ? { nodeSqlite, bunSqlite } : { nodeSqlite };

for (const [name, driver] of Object.entries(drivers)) {
  describe(`SqliteMailbox on ${name}`, () => {
    // One that is there on all runtimes stands for SQLite in the table.
    const engine = name === "nodeSqlite" ? "SQLite" : undefined;
    hostMailboxCases(make(driver), { engine });

    it("SqliteMailbox skips no conformance case", async () => {
      assertEquals(await skippedMailboxCases(make(driver)), []);
    });
  });
}

describe("SqliteMailbox in a database of another program", () => {
  hostMailboxCases(make(nodeSqlite, true), { lacks: [] });
});
