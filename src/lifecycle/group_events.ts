import type { BeatRecord, SignalName } from "../runtime.ts";

/** The stages of a run, in their order; a stop may skip some. */
export type Phase = "starting" | "running" | "unready" | "draining" | "cancelling" | "stopped";

/** A group entered a phase. */
export interface PhaseEvent {
  /** The one it is in from now on. */
  readonly phase: Phase;
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
  /** Why, for people. */
  readonly reason: string;
}

/** Why a stop began. */
export interface StopReason {
  /**
   * `signal` from outside, `trigger` by the program through the coordinator, `shutdown` by a call on
   * the group, `aborted` by the caller's AbortSignal, `failure` of a loop, or `finished`: every loop
   * had ended by itself.
   */
  readonly kind: "signal" | "trigger" | "shutdown" | "aborted" | "failure" | "finished";
  /** The same for people, as in `SIGTERM` or `loop "orders" failed`. */
  readonly text: string;
  /** The signal, where it was one. */
  readonly signal?: SignalName;
  /** True for a Ctrl+C by a person at the terminal: nobody needs to be routed away first. */
  readonly interactive?: boolean;
}

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
