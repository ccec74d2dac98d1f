// A hundred thousand leases at once: what it takes to keep them.

import { resultOf } from "./_children.ts";
import { atMost, type Goal, ms, type Part } from "./_figures.ts";
import type { Subject } from "./_subject.ts";

interface Measured {
  /** Of one core. */
  readonly cpuShare: number;
  /** For each extension. */
  readonly cpuMicros: number;
  readonly calls: number;
  readonly extended: number;
  /** The most that waited at a time. */
  readonly timers: number;
  /** The longest that the event loop could do nothing else. */
  readonly longestMs: number;
  readonly losses: number;
}

const COUNT = 100_000;
const INTERVAL_MS = 2_000;
const DEFAULT_INTERVAL_MS = 60_000;
const PATTERNS = [["at_once", "all at once"], ["spread", "over an interval"]] as const;

/** Measures on every runtime. The only goal is that no lease has a timer of its own. */
export async function manyLeases(subject: Subject): Promise<Part> {
  const table = [[
    "runtime",
    "begun",
    "CPU %",
    `CPU % at ${DEFAULT_INTERVAL_MS / 1_000} s`,
    "µs a lease",
    "engine calls",
    "extensions",
    "timers",
    "longest block ms",
    "lost",
  ]];
  const goals: Goal[] = [];
  for (const runtime of ["node", "bun", "deno"] as const) {
    for (const [pattern, name] of PATTERNS) {
      const args = [subject.entry(runtime), String(COUNT), String(INTERVAL_MS), pattern];
      const measured = await resultOf<Measured>(runtime, "many_leases.ts", args);
      const percent = measured.cpuShare * 100;
      table.push([
        runtime,
        name,
        percent.toFixed(1),
        (percent * INTERVAL_MS / DEFAULT_INTERVAL_MS).toFixed(2),
        measured.cpuMicros.toFixed(2),
        measured.calls.toFixed(0),
        measured.extended.toFixed(0),
        String(measured.timers),
        ms(measured.longestMs),
        String(measured.losses),
      ]);
      const goal = `${COUNT} leases on ${runtime}, ${name}, timers`;
      goals.push(atMost(goal, measured.timers, 1, String));
    }
  }
  const notes = [
    `in memory, extended every ${
      INTERVAL_MS / 1_000
    } s; counted over one interval of real time, CPU ` +
    "in % of one core for the whole process",
  ];
  return { title: `${COUNT} leases at once`, table, goals, notes };
}
