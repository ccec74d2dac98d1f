import type { BeatRecord } from "../runtime.ts";
import type { PhaseEvent } from "./phase.ts";

/** The state of one loop in its group. */
export type LoopState = "waiting" | "running" | "backing_off" | "ended" | "failed" | "hung";

/** A loop changed its state. */
export interface LoopEvent {
  /** The name of the loop. */
  readonly loop: string;
  /** The one it is in from now on. */
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
  /** Those without a sign of life, with the age of their last one. */
  readonly stalled: readonly BeatRecord[];
}

/** What can be watched on a group, by name. */
export interface GroupEvents {
  /** The group entered a phase. */
  readonly phase: PhaseEvent;
  /** A loop changed its state. */
  readonly loop: LoopEvent;
  /** Something went wrong and was contained. */
  readonly problem: Problem;
  /** The watchdog is about to end the process. */
  readonly stall: StallEvent;
}
