/** The steps of a coordinated stop, in their order. */
export const SHUTDOWN_STEPS = [
  "announce_state",
  "broadcast",
  "mark_unhealthy",
  "drain_inbox",
  "stop_liveness",
  "release_bus",
  "stop_orphans",
  "clean_up",
  "complete_state",
  "final_health",
] as const;

/** One of the steps. */
export type ShutdownStepName = typeof SHUTDOWN_STEPS[number];

/** How one step went. `skipped`: there was nothing to do. */
export interface ShutdownStep {
  /** Which of the ten. */
  readonly name: ShutdownStepName;
  /** How it ended; a step that failed does not keep the next from being taken. */
  readonly outcome: "done" | "failed" | "timed_out" | "skipped";
  /** How long it took. */
  readonly durationMs: number;
  /** What it failed with. */
  readonly error?: unknown;
}

/** What became of the messages of an inbox. */
export interface DrainCounts {
  /** Worked on, and removed. */
  readonly processed: number;
  /** With the dead letters, because their handler threw or because they are no messages. */
  readonly failed: number;
  /** Of unknown types, and kept in the archive. */
  readonly archived: number;
  /** With the successor. */
  readonly handedOver: number;
  /** Taken, and given back untouched. */
  readonly givenBack: number;
  /** Still in the inbox at the end; undefined when that could not be found out. */
  readonly left: number | undefined;
}

/** How a coordinated stop went. */
export interface ShutdownReport extends DrainCounts {
  /** The agent that was stopped. */
  readonly agentId: string;
  /** True when every step went well and nothing was left in the inbox. */
  readonly complete: boolean;
  /** From the first step to the end of the last. */
  readonly durationMs: number;
  /** All ten, in order. */
  readonly steps: readonly ShutdownStep[];
}
