import type { DrainReport } from "./drain_report.ts";
import type { LoopState, Phase, StopReason } from "./group_events.ts";
import type { Runnable } from "./runnable.ts";

/** The health of one loop. */
export interface LoopHealth {
  /** The name of the loop. */
  readonly name: string;
  /** The state of the loop in its group. */
  readonly state: LoopState;
  /** False while the loop cannot take work, for example while its group stops. */
  readonly ready: boolean;
  /** The number of pieces of work in flight. */
  readonly inFlight: number;
  /** The age of the oldest work in flight, in milliseconds. */
  readonly oldestMs: number;
  /** Milliseconds since its last heartbeat, where the loop has one. */
  readonly heartbeatAgeMs?: number;
  /** How often the loop was restarted after a failure. */
  readonly restarts: number;
}

/** The progress of a stop. */
export interface StopProgress {
  /** Why the stop began, as text. */
  readonly reason: string;
  /** Why the stop began, for programs. */
  readonly kind: StopReason["kind"];
  /** Milliseconds since the stop began. */
  readonly elapsedMs: number;
  /** Milliseconds until the deadline; 0 once it has passed. */
  readonly remainingMs: number;
  /** How long the whole stop may take, in milliseconds. */
  readonly timeoutMs: number;
}

/** How a run ended. */
export type RunEnd = Pick<DrainReport, "outcome" | "exitCode">;

/** The health of a group at one moment, as plain data. */
export interface HealthSnapshot {
  /** False when the process should be replaced. Stays true while draining. */
  readonly live: boolean;
  /** False when no new work should be sent here: starting, paused, stopping, or a loop is not ready. */
  readonly ready: boolean;
  /** The phase of the run; `starting` before the first run. */
  readonly phase: Phase;
  /** The phases that the run has entered so far, in order. A stop may skip some. */
  readonly phases: readonly Phase[];
  /** True between `pause` and `resume`. */
  readonly paused: boolean;
  /** The progress of the stop, once it has begun. */
  readonly stop?: StopProgress;
  /** How the run ended. Set when only the health server still runs. */
  readonly end?: RunEnd;
  /** The health of the loops, in the order of the group. */
  readonly loops: readonly LoopHealth[];
}

/** The status of one loop. */
export interface LoopStatus {
  readonly loop: Runnable;
  readonly state: LoopState;
  readonly restarts: number;
}

/** A loop is not ready when its heartbeat is older than this share of the watchdog's threshold. */
const STALE_SHARE = 0.5;

/** The phases in which a group takes work: those before a stop, and the first one of a stop. */
const WORKING: readonly Phase[] = ["starting", "running", "unready"];

/** The status of a group. */
export interface GroupStatus {
  readonly phases: readonly Phase[];
  readonly paused: boolean;
  readonly thresholdMs: number;
  readonly members: readonly LoopStatus[];
  readonly stop?: StopProgress | undefined;
  readonly end?: RunEnd | undefined;
}

/** Returns the health of a group. */
export function healthOf(group: GroupStatus): HealthSnapshot {
  const { phases, paused, thresholdMs, stop, end } = group;
  const phase = phases.at(-1) ?? "starting";
  const loops = group.members.map((member) => loopHealth(member, phase, thresholdMs));
  return {
    live: loops.every(({ heartbeatAgeMs = 0 }) => heartbeatAgeMs <= thresholdMs),
    // The others run on after a failure only with `onFailure: "ignore"`.
    ready: phase === "running" && !paused &&
      loops.every(({ ready, state }) => ready || state === "failed"),
    phase,
    phases,
    paused,
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
