// From SIGTERM to the end of the process: an idle group beside a handler that only exits.

import { setTimeout as delay } from "node:timers/promises";
import type { RuntimeName } from "../tools/runtimes.ts";
import { startWaiting } from "./_children.ts";
import { atMost, median, ms, type Part, quantile, times } from "./_figures.ts";
import type { Subject } from "./_subject.ts";

interface Variant {
  readonly name: string;
  readonly fixture: string;
  readonly args: (runtime: RuntimeName) => readonly string[];
}

const ROUNDS = 41;
const SETTLE_MS = 100;
const GOAL = 1.3;

/** Measures every variant on every runtime. */
export async function stopLatency(subject: Subject): Promise<Part> {
  const group = (variant: string) => (runtime: RuntimeName) => [subject.entry(runtime), variant];
  const variants: readonly Variant[] = [
    { name: "bare handler", fixture: "bare.ts", args: () => [] },
    { name: "group, no watchdog", fixture: "idle_group.ts", args: group("no_watchdog") },
    { name: "group, defaults", fixture: "idle_group.ts", args: group("defaults") },
  ];
  const table = [["runtime", "process", "median ms", "10 %", "90 %", "to bare"]];
  const goals = [];
  for (const runtime of ["node", "bun", "deno"] as const) {
    const samples = await interleaved(runtime, variants);
    const bare = median(samples[0] ?? []);
    for (const [index, { name }] of variants.entries()) {
      const values = samples[index] ?? [];
      const ratio = median(values) / bare;
      const range = [quantile(values, 0.1), quantile(values, 0.9)].map(ms);
      table.push([runtime, name, ms(median(values)), ...range, times(ratio)]);
      if (index > 0) goals.push(atMost(`stop on ${runtime}, ${name}, to bare`, ratio, GOAL, times));
    }
  }
  return { title: `SIGTERM to exit, ${ROUNDS} interleaved rounds`, table, goals };
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
  for (let round = 0; round < ROUNDS; round++) {
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
