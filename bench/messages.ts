// What keys, priorities and cancelling cost on an engine.

import { resultOf } from "./_children.ts";
import { atLeast, atMost, type Goal, median, ms, type Part, times } from "./_figures.ts";
import type { Subject } from "./_subject.ts";
import type { Took } from "./fixtures/_measure.ts";

/** An engine to measure. */
export interface MessagesHost {
  /** The name of the engine. */
  readonly name: string;
  /** A URL without the parameter `queue`. */
  readonly url: string;
  /** The goal for the 99th percentile of the time until another process hears of a cancelled message. */
  readonly cancelMs: number;
  /** Counts what the storage holds of the queue `idle_keys` after all of its messages are handled. */
  leftBehind(): Promise<number> | number;
}

const MESSAGES = 5_000;
const ROUNDS = 10;
const SIZES = [1_000, 500_000] as const;
const WAITING = 100_000;
const CANCELLED = 300;
const KEYS = 100_000;
const LIMIT_MS = 300_000;

/** Measures an engine on Node. */
export async function messages(subject: Subject, host: MessagesHost): Promise<Omit<Part, "title">> {
  const { name } = host;
  const measure = <T>(part: string, ...numbers: readonly number[]) =>
    resultOf<T>("node", "messages.ts", [
      ...[subject.entry("node"), host.url, part],
      ...numbers.map(String),
    ], { timeoutMs: LIMIT_MS });
  const table = [["what", "measured"]];
  const goals: Goal[] = [];

  const { without, distinct } = await measure<Record<"without" | "distinct", readonly Took[]>>(
    "keys",
    MESSAGES,
    ROUNDS,
  );
  const ratio = median(without.map(({ ms }) => ms)) / median(distinct.map(({ ms }) => ms));
  table.push(["throughput with distinct keys, to that without", times(ratio)]);
  goals.push(atLeast(`${name}, throughput with distinct keys`, ratio, 0.85, times));

  const costs = await measure<Record<string, readonly [number, number]>>("backlog", ...SIZES, 10);
  for (const [kind, [few, many]] of Object.entries(costs)) {
    const growth = many / few;
    const cells = `${few.toFixed(1)} → ${many.toFixed(1)} µs, ${times(growth)}`;
    table.push([`a message with ${SIZES.join(" and ")} waiting, ${kind}`, cells]);
    goals.push(atMost(`${name}, ${SIZES[1]} waiting, ${kind}`, growth, 1.5, times));
  }

  const urgent = await measure<{ readonly first: boolean; readonly ms: number }>(
    "priority",
    WAITING,
  );
  const place = urgent.first ? "next" : "not next";
  table.push([`priority 9 behind ${WAITING} of priority 0`, `${place}, ${ms(urgent.ms)} ms`]);
  goals.push({ goal: `${name}, priority 9 is next`, measured: place, met: urgent.first });

  const heard = (await measure<number[]>("cancel", CANCELLED)).sort((a, b) => a - b);
  const p99 = heard[Math.ceil(heard.length * 0.99) - 1]!;
  table.push(["cancel to another process, median and 99 %", `${ms(median(heard))}, ${ms(p99)} ms`]);
  goals.push(atMost(`${name}, cancel, 99 %`, p99, host.cancelMs, ms));

  await measure("idle_keys", KEYS);
  const left = await host.leftBehind();
  table.push([`left behind by ${KEYS} keys`, String(left)]);
  goals.push(atMost(`${name}, left behind by ${KEYS} keys`, left, 0, String));
  return { table, goals };
}
