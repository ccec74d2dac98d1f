import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import process from "node:process";
import { after, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { assert, assertEquals } from "@std/assert";
import { detectRuntime } from "../../../runtime_adapters/detect.ts";
import { PostgresMailbox } from "../../../src/engines/postgres/mod.ts";
import { options, ownSchema, url } from "./_shared.ts";

const COUNT = 2_000;
const FLAGS = detectRuntime().name === "deno" ? ["run", "-A", "--no-check"] : [];
const WORKER = fileURLToPath(new URL("fixtures/worker.ts", import.meta.url));

const alive = new Set<ChildProcess>();
process.on("exit", () => alive.forEach((child) => child.kill("SIGKILL")));

/** What the workers have printed, which is all that counts. */
class Ledger {
  readonly done: number[] = [];
  readonly #waiting = new Set<() => void>();

  /** Starts a worker on the runtime that hosts the test, and waits until it is there. */
  async start(schema: string): Promise<ChildProcess> {
    const child = spawn(process.execPath, [...FLAGS, WORKER, url!, schema], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    alive.add(child);
    child.once("exit", () => alive.delete(child));
    let rest = "";
    let begin = () => {};
    const ready = new Promise<void>((resolve) => begin = resolve);
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      const lines = (rest + text).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (line === "ready") begin();
        if (line.startsWith("done ")) this.done.push(Number(line.slice(5)));
      }
      for (const check of this.#waiting) check();
    });
    await ready;
    return child;
  }

  /** Resolves when so many jobs are done. */
  reaches(count: number): Promise<void> {
    return new Promise((resolve) => {
      const check = () => {
        if (this.done.length < count) return;
        this.#waiting.delete(check);
        resolve();
      };
      this.#waiting.add(check);
      check();
    });
  }
}

async function stop(child: ChildProcess): Promise<number | null> {
  const closed = once(child, "close"); // its output has ended too by then
  process.kill(child.pid!, "SIGTERM"); // in Deno `child.kill` counts as its end
  const [code] = await closed;
  return code;
}

describe("processes that share a PostgresMailbox", options, () => {
  after(() => alive.forEach((child) => child.kill("SIGKILL")));

  it("processes on one queue lose and repeat nothing when one of them is replaced", async () => {
    const schema = ownSchema();
    await using jobs = await PostgresMailbox.open<number>(url!, { name: "jobs", schema });
    const ledger = new Ledger();
    const [stays, leaves] = await Promise.all([ledger.start(schema), ledger.start(schema)]);
    const bodies = Array.from({ length: COUNT }, (_, i) => i);
    await Promise.all(bodies.map((body) => jobs.send(body)));
    await ledger.reaches(COUNT / 4);
    assert(ledger.done.length < COUNT, "it is stopped in the middle");
    assertEquals(await stop(leaves!), 0);
    const replaces = await ledger.start(schema);
    await ledger.reaches(COUNT);
    assertEquals(await Promise.all([stop(stays!), stop(replaces)]), [0, 0]);

    assertEquals(ledger.done.sort((a, b) => a - b), bodies);
    assertEquals(await jobs.approximateCount(), 0);
  });
});
