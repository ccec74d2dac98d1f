// What a message costs while a thousand, or a million, wait behind it.

import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import type { RuntimeName } from "../tools/runtimes.ts";
import { resultOf } from "./_children.ts";
import { atMost, type Goal, median, type Part, times } from "./_figures.ts";
import { rounds } from "./_rounds.ts";
import type { Subject } from "./_subject.ts";

interface Measured {
  /** Microseconds of CPU a message, for each size of batches. */
  readonly costs: readonly number[];
  /** The same for a send, a receive and an acknowledgement at a steady backlog, in large batches. */
  readonly cycleMicros: number;
  /** Microseconds of CPU that a message took to be sent. */
  readonly sendMicros: number;
  /** What a message takes of the heap. */
  readonly bytes: number;
}

const SIZES = [1_000, 1_000_000] as const;
const BATCHES = [10, 100] as const;
const PROCESSES = 3;
const LIMIT_MS = 6_000;
/** How often some are taken; in memory these need mailboxes of their own. */
const GOES = 100;
const GOES_SQLITE = 25;
const GOAL = 1.5;
const PROCESS_LIMIT_MS = 30_000;

/** Messages in memory. */
export async function backlogMemory(subject: Subject): Promise<Part> {
  const entry = (runtime: RuntimeName) => subject.entry(runtime);
  const part = await measureAll("memory", entry, () => "", GOES);
  const notes = [
    NOTE,
    "by 10 and by 100: nothing is sent meanwhile, and a thousand stands for 300 mailboxes of a thousand " +
    "each, filled beforehand",
    STEADY,
    "sent with sendMany, garbage collection included; the body is a number; the bytes are the growth " +
    "of the heap after a collection",
  ];
  return { ...part, title: "A backlog in memory", notes };
}

/** Messages in a file. Each size is filled once, and all runtimes work on copies. */
export async function backlogSqlite(subject: Subject): Promise<Part> {
  const module = "src/engines/sqlite/mod";
  const entry = (runtime: RuntimeName) => subject.entry(runtime, module);
  const filled = (size: number) => join(subject.folder, `backlog_${size}.db`);
  for (const size of SIZES) {
    await resultOf("node", "backlog.ts", [entry("node"), filled(size), String(size), "0"], {
      timeoutMs: PROCESS_LIMIT_MS,
    });
  }
  const files = new Map<string, string>();
  for (const runtime of ["node", "bun", "deno"] as const) {
    for (const size of SIZES) {
      const copy = join(subject.folder, `backlog_${size}_${runtime}.db`);
      await copyFile(filled(size), copy);
      files.set(`${runtime} ${size}`, copy);
    }
  }
  const file = (runtime: RuntimeName, size: number) => files.get(`${runtime} ${size}`)!;
  const part = await measureAll("SQLite", entry, file, GOES_SQLITE);
  const table = part.table.map((row) => row.slice(0, -2));
  return {
    ...part,
    table,
    title: "A backlog in a SQLite file",
    notes: [NOTE + "; as many are sent again in between", STEADY],
  };
}

const STEADY =
  "steady: as many are sent as are taken by 100, and all of it counts, with the garbage " +
  "collection it causes";
const NOTE = "received and acknowledged in batches of 10 and 100, µs of CPU a message";

async function measureAll(
  name: string,
  entry: (runtime: RuntimeName) => string,
  file: (runtime: RuntimeName, size: number) => string,
  goes: number,
): Promise<Omit<Part, "title">> {
  const table = [[
    "runtime",
    "backlog",
    ...BATCHES.flatMap(headings),
    "steady, µs",
    `to ${SIZES[0]}`,
    "send, µs",
    "bytes a message",
  ]];
  const goals: Goal[] = [];
  for (const runtime of ["node", "bun", "deno"] as const) {
    const samples = SIZES.map((): Measured[] => []);
    for (const _ of rounds(PROCESSES, LIMIT_MS)) {
      for (const [index, size] of SIZES.entries()) {
        const limits = [String(goes), ...BATCHES.map(String)];
        const args = [entry(runtime), file(runtime, size), String(size), ...limits];
        const options = { gc: true, timeoutMs: PROCESS_LIMIT_MS };
        samples[index]?.push(await resultOf<Measured>(runtime, "backlog.ts", args, options));
      }
    }
    const typical = samples.map((measured) =>
      BATCHES.map((_, batch) => median(measured.map(({ costs }) => costs[batch] ?? NaN)))
    );
    const cycles = samples.map((measured) => median(measured.map((it) => it.cycleMicros)));
    const few = typical[0] ?? [];
    for (const [index, size] of SIZES.entries()) {
      const costs = typical[index] ?? [];
      const cells = costs.flatMap((cost, i) => [cost.toFixed(2), times(cost / (few[i] ?? NaN))]);
      const measured = samples[index] ?? [];
      const cycle = cycles[index] ?? NaN;
      const send = median(measured.map(({ sendMicros }) => sendMicros)).toFixed(2);
      const bytes = median(measured.map((it) => it.bytes)).toFixed(0);
      table.push([
        runtime,
        String(size),
        ...cells,
        cycle.toFixed(2),
        times(cycle / cycles[0]!),
        send,
        bytes,
      ]);
    }
    for (const [index, batch] of BATCHES.entries()) {
      const growth = (typical.at(-1)?.[index] ?? NaN) / (few[index] ?? NaN);
      const what = `${name} on ${runtime}, batches of ${batch}, backlog of a million to a thousand`;
      goals.push(atMost(what, growth, GOAL, times));
    }
    const steady = `${name} on ${runtime}, sent and taken steadily, a million to a thousand`;
    goals.push(atMost(steady, (cycles.at(-1) ?? NaN) / (cycles[0] ?? NaN), GOAL, times));
  }
  return { table, goals };
}

function headings(batch: number): string[] {
  return [`by ${batch}, µs`, `to ${SIZES[0]}`];
}
