// Replicas in processes of their own, on all three runtimes, with one PostgreSQL.
// LASTCALL_CRON_SLOTS=100 runs it for longer.

import { type ChildProcess, spawn } from "node:child_process";
import { userInfo } from "node:os";
import process from "node:process";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { assert, assertEquals } from "@std/assert";
import { PostgresMailbox } from "../../src/engines/postgres/mod.ts";
import { runtimeBinary, type RuntimeName } from "../../tools/runtimes.ts";
import { options, ownSchema, url } from "../engines/postgres/_shared.ts";

const REPLICAS = 10;
const SLOTS = Number(process.env["LASTCALL_CRON_SLOTS"] ?? 10);
const SCRIPT = fileURLToPath(new URL("fixtures/replica.ts", import.meta.url));
const RUN: Readonly<Record<RuntimeName, readonly string[]>> = {
  node: [],
  bun: ["run"],
  deno: ["run", "-A", "--no-check"],
};
const RUNTIMES = Object.keys(RUN) as RuntimeName[];

const alive = new Set<ChildProcess>();
const killAll = () => alive.forEach((child) => child.kill("SIGKILL"));
process.on("exit", killAll);
after(killAll);

/** A replica, and its output when it has ended. */
interface Started {
  readonly child: ChildProcess;
  readonly ended: Promise<{ readonly code: number | null; readonly output: string }>;
}

function start(number: number, mailbox: string): Started {
  const runtime = RUNTIMES[number % RUNTIMES.length]!;
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const child = spawn(runtimeBinary(runtime), [...RUN[runtime], SCRIPT, mailbox], {
    stdio: ["ignore", "pipe", "pipe"],
    // Not every runtime knows the user of this process, who is the user of the database by default.
    env: { PGUSER: userInfo().username, ...env },
  });
  alive.add(child);
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => output += text);
  }
  const ended = new Promise<{ code: number | null; output: string }>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => {
      alive.delete(child);
      resolve({ code, output });
    });
  });
  return { child, ended };
}

test(
  "10 processes on three runtimes send each slot once, also when some are killed",
  options,
  async () => {
    const schema = ownSchema();
    const address = `${url}?queue=jobs&schema=${schema}`;
    await using jobs = await PostgresMailbox.open<number>(url!, { name: "jobs", schema });
    const slots: number[] = [];
    const handle = async (waitTimeMs: number) => {
      const messages = await jobs.receive({ maxMessages: 100, waitTimeMs });
      await jobs.acknowledgeMany(messages);
      slots.push(...messages.map(({ body }) => body));
    };

    const replicas = Array.from({ length: REPLICAS }, (_, i) => start(i, address));
    while (slots.length < SLOTS / 2) await handle(20_000);
    for (const [i, { child, ended }] of replicas.splice(0, 3).entries()) {
      process.kill(child.pid!, "SIGKILL");
      await ended;
      replicas.push(start(REPLICAS + i, address));
    }
    while (slots.length < SLOTS) await handle(20_000);
    for (const { child } of replicas) process.kill(child.pid!, "SIGTERM");
    const ends = await Promise.all(replicas.map(({ ended }) => ended));
    await handle(0);

    for (const { code, output } of ends) assertEquals(code, 0, output);
    const first = slots[0]!;
    assertEquals(slots.sort((a, b) => a - b), slots.map((_, i) => first + i * 1_000));
    const made = ends.reduce(
      (sum, { output }) => sum + Number(/^made (\d+)$/m.exec(output)?.[1]),
      0,
    );
    assert(
      made > slots.length,
      `${made} messages for ${slots.length} slots: no slot had two senders`,
    );
    console.log(`${slots.length} slots, ${made} sends of the processes that ended by themselves`);
  },
);
