// Compares results with the goals, and formats both.

import type { RuntimeName } from "../tools/runtimes.ts";
import { median, ms } from "./_figures.ts";
import { type Goal, GOALS } from "./goals.ts";
import type { Figure, Measured } from "./results.ts";

/** The outcome of a goal: a value with the lowest and highest round, or why there is none. */
export type Outcome = {
  readonly value: number;
  readonly low: number;
  readonly high: number;
  readonly met: boolean;
  readonly unit: Goal["unit"];
  /** The best peer. */
  readonly to?: string;
} | { readonly failed: string };

/** A goal on one runtime. */
export interface GoalRow {
  readonly goal: Goal;
  readonly runtime: RuntimeName;
  readonly outcome: Outcome;
}

/** Returns a row for each goal and each runtime with results for it. */
export function goalRows(figures: readonly Figure[]): GoalRow[] {
  return GOALS.flatMap((goal) =>
    figures.filter(({ comparison }) => comparison === goal.comparison)
      .map((figure) => ({ goal, runtime: figure.runtime, outcome: outcomeOf(goal, figure) }))
  );
}

/** Returns the ratio of the medians, with the lowest and highest ratio of a single round. */
function outcomeOf(goal: Goal, figure: Figure): Outcome {
  const { contender = "lastcall", to, better, limit, unit } = goal;
  const own = valuesOf(goal, figure, contender);
  if ("failed" in own) return own;
  const met = (value: number) => better === "higher" ? value >= limit : value <= limit;
  if (to === undefined) {
    const value = median(own.values);
    const [low, high] = [Math.min(...own.values), Math.max(...own.values)];
    return { value, low, high, met: met(value), unit };
  }
  const peers = to.flatMap((name) => {
    const it = valuesOf(goal, figure, name);
    return "failed" in it ? [] : [{ name, values: it.values, typical: median(it.values) }];
  });
  const best =
    peers.sort((a, b) => better === "higher" ? b.typical - a.typical : a.typical - b.typical)[0];
  if (best === undefined) return { failed: `${to.join(", ")} could not be measured` };
  const rounds = Math.min(own.values.length, best.values.length);
  const ratios = own.values.slice(0, rounds).map((value, i) => value / best.values[i]!);
  const value = median(own.values) / best.typical;
  const [low, high] = [Math.min(...ratios), Math.max(...ratios)];
  return { value, low, high, met: met(value), unit, to: best.name };
}

function valuesOf(
  { measure }: Goal,
  { contenders, count }: Figure,
  name: string,
): { readonly values: readonly number[] } | { readonly failed: string } {
  const measured = contenders[name];
  if (measured === undefined) return { failed: `${name} does not run here` };
  if ("failed" in measured) return { failed: `${name}: ${measured.failed}` };
  const values = measured.rounds[measure === "rate" ? "ms" : measure] ?? [];
  if (values.length === 0) return { failed: `${name} was not measured` };
  return { values: measure === "rate" ? values.map((value) => count / value) : values };
}

/** Formats a value with its unit. */
function withUnit(value: number, unit: Goal["unit"]): string {
  return unit === "×" ? `${digits(value)} ×` : `${ms(value)} ms`;
}

/** Formats a ratio or a rate with a suitable number of digits. */
export function digits(value: number): string {
  if (value < 0.1) return value.toPrecision(2);
  return value < 10 ? value.toFixed(2) : value < 100 ? value.toFixed(1) : value.toFixed(0);
}

/** Formats the limit of a goal: `≥ 5 ×`. */
export function limitText({ better, limit, unit }: Goal): string {
  return `${better === "higher" ? "≥" : "≤"} ${limit} ${unit}`;
}

/** Formats the outcome of a goal, with the lowest and highest round. */
export function outcomeText(outcome: Outcome): string {
  if ("failed" in outcome) return outcome.failed;
  const { value, low, high, unit } = outcome;
  const number = unit === "×" ? digits : ms;
  return `${withUnit(value, unit)} (${number(low)}–${number(high)})`;
}

/** Formats the rate or the time of a contender, with its lowest and highest round, and its CPU time per message. */
export function measuredCells(measured: Measured, count: number): readonly [string, string] {
  if ("failed" in measured) return [`failed: ${measured.failed}`, ""];
  const { ms: times = [], cpuMs, share } = measured.rounds;
  const typical = (values: readonly number[], show: (value: number) => string) =>
    `${show(median(values))} (${show(Math.min(...values))}–${show(Math.max(...values))})`;
  const cpu = cpuMs === undefined ? "" : `${digits(median(cpuMs) * 1_000 / count)} µs`;
  // Single messages and stops are times; the others are rates.
  const isRate = cpuMs !== undefined || share !== undefined;
  const main = isRate
    ? `${typical(times.map((value) => count / value), digits)} k/s`
    : `${typical(times, ms)} ms`;
  return [main, cpu];
}
