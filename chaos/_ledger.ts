// The record of what happened to every message, in the parent process.

import type { MessageHistory } from "./_result.ts";

/** One call of a handler. Times are in milliseconds since the Unix epoch, by the clock of the machine. */
export interface Handling {
  readonly id: string;
  readonly worker: string;
  readonly startedAt: number;
  /** When the handler ended, or its worker was killed. */
  endedAt: number | undefined;
  completed: boolean;
  /** Whether the engine accepted the acknowledgement; undefined when it is not known. */
  acknowledged: boolean | undefined;
  /** The steps that this call ran or got the results of, by name. */
  readonly steps: Map<string, StepTimes>;
}

/** What a handler did with one of its steps. */
export interface StepTimes {
  /** When its function was called; undefined when an earlier delivery had saved the result. */
  ranAt?: number;
  /** When `step` returned, so that the result is saved. */
  savedAt?: number;
}

/** A message that a worker held when it was killed. */
export interface Orphan {
  readonly id: string;
  readonly killedAt: number;
}

/** A time in which a worker was suspended, or got no CPU time. */
export interface Stall {
  readonly worker: string;
  readonly from: number;
  readonly to: number;
}

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

/** A worker that is not suspended starts a message at most so long after it was received. */
export const START_DELAY_MS = 1_000;

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
  /** The messages that workers held when they were killed. */
  readonly orphans: Orphan[] = [];
  readonly #stalls = new Map<string, Stall[]>();

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
      steps: new Map(),
    };
    this.#handlings.push(handling);
    this.#open.set(call, handling);
  }

  /** Records that a worker was suspended, or got no CPU time. */
  stalled(stall: Stall): void {
    const stalls = this.#stalls.get(stall.worker);
    if (stalls === undefined) this.#stalls.set(stall.worker, [stall]);
    else stalls.push(stall);
  }

  /**
   * The calls of handlers that started soon after their message was received, oldest first. The others started
   * when their worker was suspended or had been: it had received their messages at any time before.
   */
  get promptHandlings(): Handling[] {
    const isPrompt = ({ worker, startedAt }: Handling) =>
      this.#stalls.get(worker)?.every(({ from, to }) =>
        startedAt < from || startedAt > to + START_DELAY_MS
      ) ?? true;
    return this.handlings.filter(isPrompt).sort((a, b) => a.startedAt - b.startedAt);
  }

  /** Records that the function of a step was called. */
  stepRan(call: string, step: string, at: number): void {
    const { id, worker, steps } = this.#open.get(call)!;
    steps.set(step, { ranAt: at });
    this.#add(id, `step ${step} run by ${worker}`);
  }

  /** Records that a step has returned: its result is saved. */
  stepSaved(call: string, step: string, at: number): void {
    const { id, worker, steps } = this.#open.get(call)!;
    steps.set(step, { ...steps.get(step), savedAt: at });
    this.#add(id, `step ${step} saved by ${worker}`);
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

  /** Records that a handler has thrown, as when a step cannot be saved. The loop tries the message again. */
  failed(call: string, at: number): void {
    const handling = this.#open.get(call)!;
    handling.endedAt = at;
    this.#open.delete(call);
    this.#add(handling.id, `failed by ${handling.worker}`);
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
  ended(worker: string, at: number, how: "ended" | "killed" = "ended"): void {
    for (const [call, handling] of this.#open) {
      if (handling.worker !== worker) continue;
      this.#open.delete(call);
      handling.endedAt ??= at;
      this.#add(handling.id, `${worker} ${how}`);
      if (how === "killed") this.orphans.push({ id: handling.id, killedAt: at });
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

  /** Returns messages with their histories. */
  histories(ids: Iterable<string>): MessageHistory[] {
    return [...ids].map((id) => ({ id, history: this.history(id) }));
  }

  /** Adds something to the history of a message. */
  note(id: string, event: string): void {
    this.#add(id, event);
  }

  #add(id: string, event: string): Entry {
    const entry = this.#entries.get(id) ?? { completions: 0, history: [] };
    const seconds = (performance.now() - this.#startedAt) / 1_000;
    entry.history.push(`${seconds.toFixed(2)} s: ${event}`);
    this.#entries.set(id, entry);
    return entry;
  }
}
