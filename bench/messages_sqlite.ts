// Keys, priorities, cancelling and transactions in a SQLite file.

import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { resultOf } from "./_children.ts";
import { atMost, median, type Part, times } from "./_figures.ts";
import { messages } from "./messages.ts";
import type { Subject } from "./_subject.ts";
import type { Took } from "./fixtures/_measure.ts";

const MESSAGES = 500;
const ROUNDS = 20;

/** Measures messages in a SQLite file on Node. */
export async function messagesSqlite(subject: Subject): Promise<Part> {
  const file = join(subject.folder, "messages.db");
  const { table, goals } = await messages(subject, {
    name: "SQLite",
    url: `sqlite:${file}`,
    cancelMs: 200,
    leftBehind: () => leftIn(file),
  });
  const { together, apart } = await resultOf<Record<"together" | "apart", readonly Took[]>>(
    "node",
    "transactions_sqlite.ts",
    [
      subject.entry("node", "src/engines/sqlite/mod"),
      join(subject.folder, "transactions.db"),
      String(MESSAGES),
      String(ROUNDS),
    ],
    { timeoutMs: 60_000 },
  );
  const ratio = median(together.map(({ ms }) => ms)) / median(apart.map(({ ms }) => ms));
  return {
    title: "Messages in a SQLite file, node",
    table: [...table, [
      "acknowledge and insert in one transaction, to one after the other",
      times(ratio),
    ]],
    goals: [...goals, atMost("SQLite, acknowledge in a transaction", ratio, 1.1, times)],
    notes: ["other processes look at the file every 50 ms, varied by a quarter"],
  };
}

/** Counts the rows of the queue in all tables but that of queues, which has one for each. */
function leftIn(file: string): number {
  const database = new DatabaseSync(file);
  const counts = ["message", "remembered", "cancelled"].map((table) => {
    const sql = `SELECT count(*) AS count FROM ${table} WHERE queue = 'idle_keys'`;
    return Number(database.prepare(sql).get()?.["count"]);
  });
  database.close();
  return counts.reduce((sum, count) => sum + count, 0);
}
