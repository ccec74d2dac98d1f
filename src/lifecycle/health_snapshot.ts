import type { LoopState } from "./group_events.ts";
import type { Phase } from "./phase.ts";
import type { Runnable } from "./runnable.ts";
import type { StopReason } from "./stop_reason.ts";

/** How one loop is doing. */
export interface LoopHealth {
  /** That of the loop. */
  readonly name: string;
  /** What it is doing in its group. */
  readonly state: LoopState;
  /** False while it cannot take work. */
  readonly ready: boolean;
  /** Pieces of work under way. */
  readonly inFlight: number;
  /** The age of the oldest of them. */
  readonly oldestMs: number;
  /** Milliseconds since its last sign of life, where it gives any. */
  readonly heartbeatAgeMs?: number;
  /** How often it was run again after a failure. */
  readonly restarts: number;
}

/** How far a stop is. */
export interface StopProgress {
  /** Why it began, for people. */
  readonly reason: string;
  /** The same for programs. */
  readonly kind: StopReason["kind"];
  /** Since it began. */
  readonly elapsedMs: number;
  /** Until the deadline; 0 once it has passed. */
  readonly remainingMs: number;
  /** How long it may take in all. */
  readonly timeoutMs: number;
}

/** How a group is doing at one moment, as plain data. */
export interface HealthSnapshot {
  /** False when the process should be replaced. It stays true while draining. */
  readonly live: boolean;
  /** False when no new work should be sent here: starting, drained, stopping, or a loop in trouble. */
  readonly ready: boolean;
  /** The one that the run is in; `starting` before the first run. */
  readonly phase: Phase;
  /** True between `drain` and `resume`. */
  readonly drained: boolean;
  /** From the first moment of a stop on. */
  readonly stop?: StopProgress;
  /** In the order of the group. */
  readonly loops: readonly LoopHealth[];
}

/** What is known of one loop. */
export interface LoopStatus {
  readonly loop: Runnable;
  readonly state: LoopState;
  readonly restarts: number;
}

/** A loop this silent is not ready; at twice the silence the watchdog ends the process. */
const STALE_SHARE = 0.5;

/** Looks at a group. */
export function healthOf(
  phase: Phase,
  drained: boolean,
  thresholdMs: number,
  statuses: readonly LoopStatus[],
  stop?: StopProgress,
): HealthSnapshot {
  const loops = statuses.map((status) => loopHealth(status, thresholdMs));
  return {
    live: loops.every(({ heartbeatAgeMs = 0 }) => heartbeatAgeMs <= thresholdMs),
    // A failed loop only leaves the others running where the group was told to ignore failures.
    ready: phase === "running" && !drained &&
      loops.every(({ ready, state }) => ready || state === "failed"),
    phase,
    drained,
    ...(stop === undefined ? {} : { stop }),
    loops,
  };
}

function loopHealth({ loop, state, restarts }: LoopStatus, thresholdMs: number): LoopHealth {
  const inFlight = loop.inFlight ?? [];
  const active = state === "running";
  const ageMs = active ? loop.heartbeat?.ageMs : undefined;
  const fresh = ageMs === undefined || ageMs <= thresholdMs * STALE_SHARE;
  return {
    name: loop.name,
    state,
    ready: state === "ended" || active && fresh && loop.ready !== false,
    inFlight: inFlight.length,
    oldestMs: inFlight.reduce((oldest, { ageMs }) => Math.max(oldest, ageMs), 0),
    ...(ageMs === undefined ? {} : { heartbeatAgeMs: ageMs }),
    restarts,
  };
}
