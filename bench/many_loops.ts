// Starting and stopping thousands of loops in one group: does the time grow as the loops do?

import type { RuntimeName } from "../tools/runtimes.ts";
import { resultOf } from "./_children.ts";
import { atMost, type Goal, median, ms, type Part, times } from "./_figures.ts";
import { rounds } from "./_rounds.ts";
import type { Subject } from "./_subject.ts";

/** One start and stop of all loops. */
interface Round {
  readonly startMs: number;
  readonly stopMs: number;
}

interface Measured {
  /** The first in its process, as users have it. */
  readonly cold: Round;
  /** A typical one after the runtime has compiled the code, which alone shows how cost grows. */
  readonly warm: Round;
}

const FEW = 1_000;
const MANY = 10_000;
const PROCESSES = 5;
const LIMIT_MS = 8_000;
const WARM_ROUNDS = 3;
const GOAL_MS = 1_000;
const GOAL_GROWTH = 1.5;

/** Measures both sizes on every runtime. */
export async function manyLoops(subject: Subject): Promise<Part> {
  const table = [[
    "runtime",
    "loops",
    "cold start",
    "cold stop",
    "warm start",
    "warm stop",
    "µs a loop",
  ]];
  const goals: Goal[] = [];
  for (const runtime of ["node", "bun", "deno"] as const) {
    const [few, many] = await interleaved(runtime, subject.entry(runtime));
    for (const [count, { cold, warm }] of [[FEW, few], [MANY, many]] as const) {
      const cells = [cold.startMs, cold.stopMs, warm.startMs, warm.stopMs].map(ms);
      table.push([runtime, String(count), ...cells, (total(warm) / count * 1_000).toFixed(1)]);
    }
    const growth = (total(many.warm) / MANY) / (total(few.warm) / FEW);
    const name = `${MANY} loops on ${runtime}`;
    goals.push(
      atMost(`${name}, cold start and stop,`, total(many.cold), GOAL_MS, (it) => `${ms(it)} ms`),
      atMost(`${name}, a loop's cost to that of ${FEW},`, growth, GOAL_GROWTH, times),
    );
  }
  return { title: "Many loops in one group, median ms", table, goals };
}

async function interleaved(runtime: RuntimeName, entry: string): Promise<[Measured, Measured]> {
  const few: Round[][] = [];
  const many: Round[][] = [];
  for (const _ of rounds(PROCESSES, LIMIT_MS)) {
    for (const [count, results] of [[FEW, few], [MANY, many]] as const) {
      const args = [entry, String(count), String(1 + WARM_ROUNDS)];
      results.push(await resultOf<Round[]>(runtime, "many_loops.ts", args));
    }
  }
  return [measured(few), measured(many)];
}

function measured(processes: readonly (readonly Round[])[]): Measured {
  return {
    cold: typical(processes.flatMap((rounds) => rounds.slice(0, 1))),
    warm: typical(processes.flatMap((rounds) => rounds.slice(1))),
  };
}

function typical(rounds: readonly Round[]): Round {
  return {
    startMs: median(rounds.map(({ startMs }) => startMs)),
    stopMs: median(rounds.map(({ stopMs }) => stopMs)),
  };
}

function total({ startMs, stopMs }: Round): number {
  return startMs + stopMs;
}
