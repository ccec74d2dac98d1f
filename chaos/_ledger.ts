// The record of what happened to every message, in the parent process, and the result of a run.

import type { FaultKind } from "./options.ts";

interface Entry {
  completions: number;
  readonly history: string[];
}

/** Counts per message how often its handler started and completed. */
export class Ledger {
  readonly #entries = new Map<string, Entry>();
  readonly #startedAt = performance.now();
  /** The number of messages that completed at least once. */
  completed = 0;
  /** Messages that completed more than once. */
  readonly duplicated: Set<string> = new Set();
  /** Messages that used an attempt without completing. */
  readonly repeated: Set<string> = new Set();

  /** Records that a handler started. */
  started(worker: string, id: string, attempt: number): void {
    if (attempt > 1) this.repeated.add(id);
    this.#add(id, `started by ${worker}, attempt ${attempt}`);
  }

  /** Records that a handler completed. */
  done(worker: string, id: string): void {
    const entry = this.#add(id, `done by ${worker}`);
    if (++entry.completions === 1) this.completed++;
    else this.duplicated.add(id);
  }

  /** Returns those of the messages 1 to `sent` that did not complete. */
  missing(sent: number): string[] {
    const ids = Array.from({ length: sent }, (_, i) => `${i + 1}`);
    return ids.filter((id) => (this.#entries.get(id)?.completions ?? 0) === 0);
  }

  /** Returns everything that happened to a message. */
  history(id: string): string {
    return this.#entries.get(id)?.history.join("; ") ?? "never started";
  }

  #add(id: string, event: string): Entry {
    const entry = this.#entries.get(id) ?? { completions: 0, history: [] };
    const seconds = (performance.now() - this.#startedAt) / 1_000;
    entry.history.push(`${seconds.toFixed(2)} s: ${event}`);
    this.#entries.set(id, entry);
    return entry;
  }
}

/** A message with everything that happened to it. */
export interface MessageHistory {
  readonly id: string;
  readonly history: string;
}

/** The result of a run. */
export interface ChaosResult {
  readonly title: string;
  readonly seed: number;
  readonly sent: number;
  readonly completed: number;
  readonly lost: readonly MessageHistory[];
  readonly duplicated: readonly MessageHistory[];
  /** Messages that used an attempt without completing. */
  readonly repeated: readonly MessageHistory[];
  /** The number of messages that are still in the mailbox. */
  readonly left: number;
  readonly deadLetters: number;
  readonly faults: Partial<Readonly<Record<FaultKind, number>>>;
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
  const { lost, duplicated, repeated, left, deadLetters, failures, graceful } = result;
  return [
    ...named("lost", lost),
    ...(left > 0 ? [`${left} messages are still in the mailbox`] : []),
    ...(deadLetters > 0 ? [`${deadLetters} messages are among the dead letters`] : []),
    ...(graceful ? named("handled twice", duplicated) : []),
    ...(graceful ? named("started twice though all workers stopped gracefully", repeated) : []),
    ...failures,
  ];
}

/** Formats a result for the terminal. */
export function textOf(result: ChaosResult): string {
  const { title, seed, sent, completed, lost, duplicated, faults, ms, remarks } = result;
  const seconds = ms / 1_000;
  const survived = Object.entries(faults).map(([kind, count]) => `${kind} ${count}`).join(", ");
  return [
    title,
    `  sent        ${sent}`,
    `  completed   ${completed}`,
    `  lost        ${lost.length}`,
    `  duplicated  ${duplicated.length}`,
    `  survived    ${survived || "no faults"}`,
    `  throughput  ${(completed / seconds).toFixed(0)} messages/s`,
    `  time        ${seconds.toFixed(1)} s`,
    `  seed        ${seed}`,
    ...remarks.map((remark) => `  ${remark}`),
    ...problemsOf(result).map((problem) => `  FAILED: ${problem}`),
  ].join("\n");
}

function named(what: string, messages: readonly MessageHistory[]): string[] {
  if (messages.length === 0) return [];
  const some = messages.slice(0, NAMED).map(({ id, history }) => `\n    ${id}: ${history}`);
  const more = messages.length > NAMED ? `\n    and ${messages.length - NAMED} more` : "";
  return [`${messages.length} messages were ${what}:${some.join("")}${more}`];
}
