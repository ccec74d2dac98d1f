import type { Emitter } from "../_emitter.ts";
import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import type { BeatRecord, SignalName } from "../runtime.ts";

/** The phases of a run, in order. A stop may skip some. */
export const PHASES: readonly Phase[] = [
  "starting",
  "running",
  "unready",
  "draining",
  "cancelling",
  "stopped",
];

/** A phase of a run. */
export type Phase = "starting" | "running" | "unready" | "draining" | "cancelling" | "stopped";

/** A group entered a phase. */
export interface PhaseEvent {
  /** The phase that the group is in now. */
  readonly phase: Phase;
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
  /** Why, as text. */
  readonly reason: string;
}

/** Why a stop began. */
export interface StopReason {
  /**
   * `signal`: the process received one. `trigger`: the program called the coordinator. `shutdown`: the
   * program called the group. `aborted`: the caller's AbortSignal aborted. `failure`: a loop failed.
   * `finished`: every loop ended by itself. `recycle`: an option of `recycle` ended the run.
   */
  readonly kind: "signal" | "trigger" | "shutdown" | "aborted" | "failure" | "finished" | "recycle";
  /** The reason as text, as in `SIGTERM` or `loop "orders" failed`. */
  readonly text: string;
  /** The signal, when `kind` is `signal`. */
  readonly signal?: SignalName;
  /** True for Ctrl+C at a terminal. The stop then skips `unreadyDelayMs`. */
  readonly interactive?: boolean;
}

/** The state of one loop in its group. */
export type LoopState = "waiting" | "running" | "backing_off" | "ended" | "failed" | "hung";

/** A loop changed its state. */
export interface LoopEvent {
  /** The name of the loop. */
  readonly loop: string;
  /** The state that the loop is in now. */
  readonly state: LoopState;
  /** Milliseconds since the Unix epoch. */
  readonly at: number;
  /** The error that the loop failed with. */
  readonly error?: unknown;
}

/** An error that did not end the run. */
export interface Problem {
  /** What happened, as text. */
  readonly what: string;
  /** The error, where there was one. */
  readonly error?: unknown;
}

/** Loops had no heartbeat for too long. The process ends right after this event. */
export interface StallEvent {
  /** The stalled loops and the age of their last heartbeat. */
  readonly stalled: readonly BeatRecord[];
}

/** The events of a group, by name. */
export interface GroupEvents {
  /** The group entered a phase. */
  readonly phase: PhaseEvent;
  /** A loop changed its state. */
  readonly loop: LoopEvent;
  /** An error that did not end the run. */
  readonly problem: Problem;
  /** The watchdog is about to end the process. */
  readonly stall: StallEvent;
}

/** Records the phases and problems of one run, and emits them as events. */
export class RunRecord {
  readonly phases: PhaseEvent[] = [];
  readonly problems: Problem[] = [];
  readonly #emitter: Emitter<GroupEvents>;
  readonly #clock: Clock;
  readonly #log: Log;

  constructor(emitter: Emitter<GroupEvents>, clock: Clock, log: Log) {
    this.#emitter = emitter;
    this.#clock = clock;
    this.#log = log;
  }

  /** The current phase; `starting` before the first. */
  get phase(): Phase {
    return this.phases.at(-1)?.phase ?? "starting";
  }

  enter(phase: Phase, reason: string): void {
    const event = { phase, at: this.#clock.now(), reason };
    this.phases.push(event);
    this.#emitter.emit("phase", event);
  }

  problem(what: string, error: unknown): void {
    this.problems.push({ what, error });
    this.#log.error(what, { error });
    this.#emitter.emit("problem", { what, error });
  }
}
