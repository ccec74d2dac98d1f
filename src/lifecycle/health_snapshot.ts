import type { DrainReport } from "./drain_report.ts";
import type { LoopState, Phase, StopReason } from "./group_events.ts";
import type { Runnable } from "./runnable.ts";

/** How one loop is doing. */
export interface LoopHealth {
  /** That of the loop. */
  readonly name: string;
  /** What it is doing in its group. */
  readonly state: LoopState;
  /** False while it cannot take work, as from the moment on that its group stops. */
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

/** How a run ended, as its report says. */
export type RunEnd = Pick<DrainReport, "outcome" | "exitCode">;

/** How a group is doing at one moment, as plain data. */
export interface HealthSnapshot {
  /** False when the process should be replaced. It stays true while draining. */
  readonly live: boolean;
  /** False when no new work should be sent here: starting, drained, stopping, or a loop in trouble. */
  readonly ready: boolean;
  /** The one that the run is in; `starting` before the first run. */
  readonly phase: Phase;
  /** Those that the run has entered so far, in order; a stop may skip some. */
  readonly phases: readonly Phase[];
  /** True between `drain` and `resume`. */
  readonly drained: boolean;
  /** From the first moment of a stop on. */
  readonly stop?: StopProgress;
  /** How the run ended, once everything but what serves health has stopped. */
  readonly end?: RunEnd;
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

/** A group has these phases before a stop, and the first one of it, in which it still takes work. */
const WORKING: readonly Phase[] = ["starting", "running", "unready"];

/** What is known of a group. */
export interface GroupStatus {
  readonly phases: readonly Phase[];
  readonly drained: boolean;
  readonly thresholdMs: number;
  readonly members: readonly LoopStatus[];
  readonly stop?: StopProgress | undefined;
  readonly end?: RunEnd | undefined;
}

/** Looks at a group. */
export function healthOf(group: GroupStatus): HealthSnapshot {
  const { phases, drained, thresholdMs, stop, end } = group;
  const phase = phases.at(-1) ?? "starting";
  const loops = group.members.map((member) => loopHealth(member, phase, thresholdMs));
  return {
    live: loops.every(({ heartbeatAgeMs = 0 }) => heartbeatAgeMs <= thresholdMs),
    // A failed loop only leaves the others running where the group was told to ignore failures.
    ready: phase === "running" && !drained &&
      loops.every(({ ready, state }) => ready || state === "failed"),
    phase,
    phases,
    drained,
    ...(stop === undefined ? {} : { stop }),
    ...(end === undefined ? {} : { end }),
    loops,
  };
}

function loopHealth(
  { loop, state, restarts }: LoopStatus,
  phase: Phase,
  thresholdMs: number,
): LoopHealth {
  const inFlight = loop.inFlight ?? [];
  const active = state === "running";
  const ageMs = active ? loop.heartbeat?.ageMs : undefined;
  const fresh = ageMs === undefined || ageMs <= thresholdMs * STALE_SHARE;
  const able = state === "ended" || active && fresh && loop.ready !== false;
  return {
    name: loop.name,
    state,
    ready: able && WORKING.includes(phase),
    inFlight: inFlight.length,
    oldestMs: inFlight.reduce((oldest, { ageMs }) => Math.max(oldest, ageMs), 0),
    ...(ageMs === undefined ? {} : { heartbeatAgeMs: ageMs }),
    restarts,
  };
}
