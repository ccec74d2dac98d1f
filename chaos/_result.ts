// The result of a run, and its output.

import type { FaultCounts } from "./_faults.ts";

/** A message with everything that happened to it. */
export interface MessageHistory {
  readonly id: string;
  readonly history: string;
}

/** A promise that a run has checked. */
export interface Check {
  /** The name of its line in the output. */
  readonly name: string;
  /** What is wrong, after a number: "messages were stolen". */
  readonly problem: string;
  /** The messages that break the promise. */
  readonly broken: readonly MessageHistory[];
}

/** The result of a run. */
export interface ChaosResult {
  readonly title: string;
  readonly seed: number;
  /** The hash of the schedule of faults; undefined for a run without one. */
  readonly schedule?: string;
  readonly sent: number;
  readonly completed: number;
  readonly lost: readonly MessageHistory[];
  readonly duplicated: readonly MessageHistory[];
  /** Messages that used an attempt without completing. */
  readonly repeated: readonly MessageHistory[];
  /** The number of messages that are still in the mailbox. */
  readonly left: number;
  /** Messages that were dead-lettered though their handlers never fail. */
  readonly deadLetters: readonly MessageHistory[];
  /** The checks of the options of the run. */
  readonly checks: readonly Check[];
  /** The number of messages that `cancel` deleted. */
  readonly cancelled?: number;
  readonly faults: Readonly<FaultCounts>;
  /** Faults that were not possible at their time. */
  readonly skipped?: Readonly<FaultCounts>;
  /** What workers did wrong. */
  readonly failures: readonly string[];
  readonly ms: number;
  /** True when workers were only stopped gracefully: then no message may be handled twice. */
  readonly graceful: boolean;
  /** Further lines of the output. */
  readonly remarks: readonly string[];
}

/** How many messages of a kind the output names. */
const NAMED = 5;

/** Returns what is wrong with a result. */
export function problemsOf(result: ChaosResult): string[] {
  const { lost, duplicated, repeated, left, deadLetters, checks, failures, graceful } = result;
  return [
    ...named("messages were lost", lost),
    ...(left > 0 ? [`${left} messages are still in the mailbox`] : []),
    ...named("messages were dead-lettered", deadLetters),
    ...(graceful ? named("messages were handled twice", duplicated) : []),
    ...(graceful
      ? named("messages were started twice though all workers stopped gracefully", repeated)
      : []),
    ...checks.flatMap(({ problem, broken }) => named(problem, broken)),
    ...failures,
  ];
}

/** Formats a result for the terminal. */
export function textOf(result: ChaosResult): string {
  const { title, seed, sent, completed, lost, duplicated, checks, ms } = result;
  const { schedule, skipped = {}, cancelled = 0 } = result;
  const seconds = ms / 1_000;
  const lines: readonly (readonly [string, string | number] | undefined)[] = [
    ["sent", sent],
    ["completed", completed],
    ["lost", lost.length],
    ["duplicated", duplicated.length],
    ...checks.map(({ name, broken }) => [name, broken.length] as const),
    cancelled > 0 ? ["cancelled", cancelled] : undefined,
    ["survived", countsText(result.faults) || "no faults"],
    countsText(skipped) === "" ? undefined : ["skipped", countsText(skipped)],
    ["throughput", `${(completed / seconds).toFixed(0)} messages/s`],
    ["time", `${seconds.toFixed(1)} s`],
    ["seed", schedule === undefined ? seed : `${seed}, schedule ${schedule}`],
  ];
  return [
    title,
    ...lines.filter((line) => line !== undefined)
      .map(([name, value]) => `  ${name.padEnd(11)} ${value}`),
    ...result.remarks.map((remark) => `  ${remark}`),
    ...problemsOf(result).map((problem) => `  FAILED: ${problem}`),
  ].join("\n");
}

function countsText(counts: Readonly<FaultCounts>): string {
  return Object.entries(counts).map(([kind, count]) => `${kind} ${count}`).join(", ");
}

function named(problem: string, messages: readonly MessageHistory[]): string[] {
  if (messages.length === 0) return [];
  const some = messages.slice(0, NAMED).map(({ id, history }) => `\n    ${id}: ${history}`);
  const more = messages.length > NAMED ? `\n    and ${messages.length - NAMED} more` : "";
  return [`${messages.length} ${problem}:${some.join("")}${more}`];
}
