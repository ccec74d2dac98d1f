import type { Log } from "../log.ts";
import type { BeatRecord } from "../runtime.ts";
import type { PhaseEvent } from "./phase.ts";

/** The state of one loop in its group. */
export type LoopState = "waiting" | "running" | "backing_off" | "ended" | "failed" | "hung";

/** A loop changed its state. */
export interface LoopEvent {
  readonly loop: string;
  readonly state: LoopState;
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
  /** What it failed with. */
  readonly error?: unknown;
}

/** Something went wrong and was contained. */
export interface Problem {
  /** What happened, for people. */
  readonly what: string;
  /** What it failed with, where there was an error. */
  readonly error?: unknown;
}

/** Loops gave no sign of life for too long; the process ends right after this. */
export interface StallEvent {
  readonly stalled: readonly BeatRecord[];
}

/** What can be watched on a group, by name. */
export interface GroupEvents {
  readonly phase: PhaseEvent;
  readonly loop: LoopEvent;
  readonly problem: Problem;
  readonly stall: StallEvent;
}

/** Hands events to whoever listens. A listener that throws harms nobody else. */
export class GroupEmitter {
  readonly #listeners = new Map<keyof GroupEvents, Set<(event: never) => void>>();
  readonly #log: Log;

  constructor(log: Log) {
    this.#log = log;
  }

  /** Adds a listener and returns its remover. */
  on<K extends keyof GroupEvents>(kind: K, listener: (event: GroupEvents[K]) => void): () => void {
    const listeners = this.#listeners.get(kind) ?? new Set();
    this.#listeners.set(kind, listeners.add(listener));
    return () => void listeners.delete(listener);
  }

  /** Calls the listeners of this kind of event. */
  emit<K extends keyof GroupEvents>(kind: K, event: GroupEvents[K]): void {
    for (const listener of this.#listeners.get(kind) ?? []) {
      try {
        (listener as (event: GroupEvents[K]) => void)(event);
      } catch (error) {
        this.#log.error(`a listener for "${kind}" events failed`, { error });
      }
    }
  }
}
