// From SIGTERM to the end of the process: an idle group compared with a handler that only exits.

import { setTimeout as delay } from "node:timers/promises";
import type { RuntimeName } from "../tools/runtimes.ts";
import { startWaiting } from "./_children.ts";
import { atMost, median, over, type Part, SPREAD, spread, times } from "./_figures.ts";
import { rounds } from "./_rounds.ts";
import type { Subject } from "./_subject.ts";

interface Variant {
  readonly name: string;
  readonly fixture: string;
  readonly args: (runtime: RuntimeName) => readonly string[];
  /** Whether it is held to the goal. */
  readonly ours?: boolean;
}

const ROUNDS = 31;
const LIMIT_MS = 22_000;
const SETTLE_MS = 100;
const GOAL = 1.3;

/** Measures every variant on every runtime. */
export async function stopLatency(subject: Subject): Promise<Part> {
  const variants: readonly Variant[] = [
    { name: "bare handler", fixture: "bare.ts", args: () => [] },
    // What the watchdog's thread costs any process that ends, whoever stops it.
    { name: "bare handler, idle thread", fixture: "bare_with_thread.ts", args: () => [] },
    ...["no_watchdog", "defaults"].map((variant) => ({
      name: `group, ${variant.replace("_", " ")}`,
      fixture: "idle_group.ts",
      args: (runtime: RuntimeName) => [subject.entry(runtime), variant],
      ours: true,
    })),
  ];
  const table = [["runtime", "process", ...SPREAD, "over bare", "to bare"]];
  const goals = [];
  for (const runtime of ["node", "bun", "deno"] as const) {
    const samples = await interleaved(runtime, variants);
    const bare = median(samples[0] ?? []);
    for (const [index, { name, ours }] of variants.entries()) {
      const values = samples[index] ?? [];
      const ratio = median(values) / bare;
      table.push([runtime, name, ...spread(values), over(median(values), bare), times(ratio)]);
      if (ours) goals.push(atMost(`stop on ${runtime}, ${name}, to bare`, ratio, GOAL, times));
    }
  }
  return { title: "SIGTERM to exit", table, goals };
}

/**
 * In each round all variants wait side by side and are stopped one after another, so that noise hits
 * all of them; who is first changes from round to round.
 */
async function interleaved(
  runtime: RuntimeName,
  variants: readonly Variant[],
): Promise<readonly (readonly number[])[]> {
  const samples: number[][] = variants.map(() => []);
  for (const round of rounds(ROUNDS, LIMIT_MS)) {
    const waiting = await Promise.all(
      variants.map(({ fixture, args }) => startWaiting(runtime, fixture, args(runtime))),
    );
    await delay(SETTLE_MS);
    for (let turn = 0; turn < variants.length; turn++) {
      const index = (round + turn) % variants.length;
      samples[index]?.push(await waiting[index]!.stop());
    }
  }
  return samples;
}
