// Workers die at random statements of transactions that insert a row and acknowledge: every row is there once.
// A run takes a fresh seed and prints it. LASTCALL_MESSAGES=10000 makes it a long test.

import process from "node:process";
import { describe, it } from "node:test";
import { assertEquals, assertGreater } from "@std/assert";
import { PostgresMailbox } from "../../../src/engines/postgres/mod.ts";
import { seed } from "../../_seed.ts";
import { Child } from "../../signals/_child.ts";
import { observer, options as server, ownSchema, url } from "./_shared.ts";

const MESSAGES = Number(process.env["LASTCALL_MESSAGES"] ?? 300);
const WORKERS = 2;
/** About so many workers die. */
const DEATHS = Math.max(15, MESSAGES / 100);
/** A transaction takes four statements. */
const CHANCE = DEATHS / (4 * MESSAGES);

describe("workers that are killed in transactions", server, () => {
  it(`no message is lost, and none has its effect twice (seed ${seed})`, async () => {
    const schema = ownSchema();
    const sql = observer();
    await using jobs = await PostgresMailbox.open<number>(url!, { name: "jobs", schema });
    await sql.unsafe(`create table "${schema}".effects (job int)`);
    const bodies = Array.from({ length: MESSAGES }, (_, i) => i);
    await jobs.sendMany(bodies, (body) => body % 2 === 0 ? { key: `${body % 20}` } : {});

    let started = 0;
    let deaths = 0;
    const replace = async () => {
      while (await jobs.approximateCount() > 0) {
        const args = [url!, schema, `${seed + started++}`, `${CHANCE}`];
        const fixture = "../../engines/postgres/fixtures/transaction_worker";
        await using worker = Child.start(fixture, { args });
        const { signal, code, stderr } = await worker.exit();
        if (signal === "SIGKILL") deaths++;
        else assertEquals(code, 0, stderr);
      }
    };
    await Promise.all(Array.from({ length: WORKERS }, replace));

    const rows = await sql.unsafe(`select job from "${schema}".effects order by job`);
    assertEquals(rows.map(({ job }) => job), bodies);
    assertEquals(await jobs.deadLetters.approximateCount(), 0);
    assertGreater(deaths, 0, "workers died");
    await sql.end();
  });
});
