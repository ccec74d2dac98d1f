// The record of what happened to every message, in the parent process, and the result of a run.

import type { FaultKind } from "./options.ts";
import type { Handling, OrderFaults } from "./_order.ts";

interface Entry {
  completions: number;
  readonly history: string[];
}

/** Whether `cancel` deleted a message; unknown when its answer was lost. */
export type CancelAnswer = boolean | "unknown";

/**
 * How the engine answered an acknowledgement. One that is repeated because its answer was lost proves nothing:
 * the message is gone, but another worker or a cancel may have deleted it.
 */
export type AckAnswer = "accepted" | "refused" | "repeated";

/** Records every call of a handler, and counts per message how often it completed. */
export class Ledger {
  readonly #entries = new Map<string, Entry>();
  readonly #handlings: Handling[] = [];
  /** The handlings that are not acknowledged, by the name of the call. */
  readonly #open = new Map<string, Handling>();
  /** Messages that completed, or that a cancel may have deleted. */
  readonly #finished = new Set<string>();
  readonly #cancelledAt = new Map<string, number>();
  readonly #abortedAt = new Map<string, number>();
  readonly #startedAt = performance.now();
  /** The number of messages that completed at least once. */
  completed = 0;
  /** Messages that completed more than once. */
  readonly duplicated: Set<string> = new Set();
  /** Messages that used an attempt without completing. */
  readonly repeated: Set<string> = new Set();
  /** The answers of cancels that deleted their message, or may have. */
  readonly cancelled: Map<string, CancelAnswer> = new Map();

  /** The number of messages that completed, or that a cancel may have deleted. */
  get finished(): number {
    return this.#finished.size;
  }

  /** The calls of handlers of messages that no cancel has deleted. */
  get handlings(): Handling[] {
    return this.#handlings.filter(({ id }) => !this.cancelled.has(id));
  }

  /** The messages that both `cancel` and an acknowledgement have deleted, according to the engine. */
  get revived(): string[] {
    const acknowledged = this.#handlings.filter((it) => it.acknowledged);
    return acknowledged.map(({ id }) => id).filter((id) => this.cancelled.get(id) === true);
  }

  /** Records that a handler started. `call` is a name of this call that no other one has. */
  started(worker: string, call: string, id: string, attempt: number, at: number): void {
    if (attempt > 1) this.repeated.add(id);
    this.#add(id, `started by ${worker}, attempt ${attempt}`);
    const handling: Handling = {
      id,
      worker,
      startedAt: at,
      endedAt: undefined,
      completed: false,
      acknowledged: undefined,
    };
    this.#handlings.push(handling);
    this.#open.set(call, handling);
  }

  /** Records that a handler completed. */
  done(call: string, at: number): void {
    const handling = this.#open.get(call)!;
    const { id, worker } = handling;
    handling.completed = true;
    handling.endedAt = at;
    this.#finished.add(id);
    const entry = this.#add(id, `done by ${worker}`);
    if (++entry.completions === 1) this.completed++;
    else this.duplicated.add(id);
  }

  /** Records the answer of the engine to an acknowledgement. */
  acknowledged(call: string, answer: AckAnswer): void {
    const handling = this.#open.get(call)!;
    handling.acknowledged = answer === "repeated" ? undefined : answer === "accepted";
    this.#open.delete(call);
    if (answer !== "accepted") {
      this.#add(handling.id, `${answer} acknowledgement of ${handling.worker}`);
    }
  }

  /** Records that a worker has ended: its handlers ended at this time, if not before. */
  ended(worker: string, at: number): void {
    for (const [call, handling] of this.#open) {
      if (handling.worker !== worker) continue;
      this.#open.delete(call);
      handling.endedAt ??= at;
    }
  }

  /** Records that a handler ended because its message was cancelled. */
  aborted(call: string, at: number): void {
    const handling = this.#open.get(call)!;
    handling.endedAt = at;
    this.#abortedAt.set(handling.id, at);
    this.#add(handling.id, `aborted by ${handling.worker}`);
  }

  /** How long each cancelled handler went on after the call of `cancel`, in milliseconds, shortest first. */
  get abortMs(): number[] {
    const all = [...this.#cancelledAt].flatMap(([id, at]) => (this.#abortedAt.get(id) ?? NaN) - at);
    return all.filter((ms) => !Number.isNaN(ms)).sort((a, b) => a - b);
  }

  /** Records the answer of a cancel, and when it was called. */
  cancel(id: string, answer: CancelAnswer, at: number): void {
    this.#cancelledAt.set(id, at);
    this.#add(id, answer === true ? "cancelled" : `cancel answered ${answer}`);
    if (answer === false) return;
    this.cancelled.set(id, answer);
    this.#finished.add(id);
  }

  /** Returns those of the messages 1 to `sent` that did not complete and were not cancelled. */
  missing(sent: number): string[] {
    const ids = Array.from({ length: sent }, (_, i) => `${i + 1}`);
    return ids.filter((id) => !this.#finished.has(id));
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
  /** What went wrong with the order of keys; undefined for a run without keys. */
  readonly order?: Readonly<Record<keyof OrderFaults, readonly MessageHistory[]>> | undefined;
  /** The number of messages that `cancel` deleted. */
  readonly cancelled?: number;
  /** Messages that were acknowledged although `cancel` had deleted them. */
  readonly revived?: readonly MessageHistory[];
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
  const { order, revived = [] } = result;
  return [
    ...named("lost", lost),
    ...(left > 0 ? [`${left} messages are still in the mailbox`] : []),
    ...(deadLetters > 0 ? [`${deadLetters} messages are among the dead letters`] : []),
    ...(graceful ? named("handled twice", duplicated) : []),
    ...(graceful ? named("started twice though all workers stopped gracefully", repeated) : []),
    ...named("completed before an earlier message of their key", order?.inversions ?? []),
    ...named("handled beside another message of their key", order?.overlaps ?? []),
    ...named("handled although they were cancelled", revived),
    ...failures,
  ];
}

/** Formats a result for the terminal. */
export function textOf(result: ChaosResult): string {
  const { title, seed, sent, completed, lost, duplicated, faults, ms, remarks } = result;
  const { order, cancelled = 0 } = result;
  const seconds = ms / 1_000;
  const survived = Object.entries(faults).map(([kind, count]) => `${kind} ${count}`).join(", ");
  return [
    title,
    `  sent        ${sent}`,
    `  completed   ${completed}`,
    `  lost        ${lost.length}`,
    `  duplicated  ${duplicated.length}`,
    ...(order === undefined ? [] : [`  inversions  ${order.inversions.length}`]),
    ...(order === undefined ? [] : [`  overlaps    ${order.overlaps.length}`]),
    ...(cancelled === 0 ? [] : [`  cancelled   ${cancelled}`]),
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
