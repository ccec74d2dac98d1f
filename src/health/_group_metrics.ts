import { NO_COUNTS } from "../lifecycle/runnable.ts";
import type { Phase } from "../lifecycle/group_events.ts";
import type { Runnable } from "../lifecycle/runnable.ts";
import type { LeaseCounters } from "../lease/lease_extender.ts";
import type { Inspectable } from "./health_options.ts";
import type { Metric, MetricSample } from "./metric_source.ts";

const PHASES: readonly Phase[] = [
  "starting",
  "running",
  "unready",
  "draining",
  "cancelling",
  "stopped",
];

/** The numbers of a group and its loops. */
export function groupMetrics(group: Inspectable): readonly Metric[] {
  const health = group.health();
  const each = (value: (loop: typeof health.loops[number]) => number): MetricSample[] =>
    health.loops.map((loop) => ({ labels: { loop: loop.name }, value: value(loop) }));
  return [
    gauge("lastcall_ready", "Whether new work should be sent here.", one(Number(health.ready))),
    gauge("lastcall_live", "Whether the process should go on.", one(Number(health.live))),
    gauge("lastcall_drained", "Whether the group was told to take no work.", [
      { value: Number(health.paused) },
    ]),
    gauge(
      "lastcall_phase",
      "The phase that the group is in.",
      PHASES.map((phase) => ({ labels: { phase }, value: Number(phase === health.phase) })),
    ),
    counter("lastcall_runs_total", "Runs of the group by how they ended.", outcomes(group)),
    gauge(
      "lastcall_loop_ready",
      "Whether a loop can take work.",
      each(({ ready }) => Number(ready)),
    ),
    gauge(
      "lastcall_loop_in_flight",
      "Pieces of work under way.",
      each(({ inFlight }) => inFlight),
    ),
    gauge(
      "lastcall_loop_oldest_work_seconds",
      "The age of the oldest work under way.",
      each(({ oldestMs }) => oldestMs / 1_000),
    ),
    gauge(
      "lastcall_loop_heartbeat_age_seconds",
      "Time since the last sign of life.",
      each(({ heartbeatAgeMs = 0 }) => heartbeatAgeMs / 1_000),
    ),
    counter(
      "lastcall_loop_restarts_total",
      "How often a loop was run again after a failure.",
      each(({ restarts }) => restarts),
    ),
    counter(
      "lastcall_messages_total",
      "Messages of the current run by what became of them.",
      group.loops.flatMap(messages),
    ),
    counter(
      "lastcall_leases_total",
      "Extensions of leases by what came of them.",
      group.loops.flatMap(leases),
    ),
  ];
}

function gauge(name: string, help: string, samples: readonly MetricSample[]): Metric {
  return { name, help, type: "gauge", samples };
}

function counter(name: string, help: string, samples: readonly MetricSample[]): Metric {
  return { name, help, type: "counter", samples };
}

function one(value: number): readonly MetricSample[] {
  return [{ value }];
}

function outcomes(group: Inspectable): readonly MetricSample[] {
  return Object.entries(group.outcomes).map(([outcome, value]) => ({
    labels: { outcome },
    value,
  }));
}

/** What is in flight is a gauge of its own. */
function messages({ name, counts: own }: Runnable): readonly MetricSample[] {
  if (own === undefined) return [];
  const { leftToExpire: _, ...counts } = { ...NO_COUNTS, ...own };
  return Object.entries(counts).map(([outcome, value]) => ({
    labels: { loop: name, outcome: snakeCase(outcome) },
    value,
  }));
}

function leases(loop: Runnable): readonly MetricSample[] {
  const { leases } = loop as { readonly leases?: { readonly counters?: LeaseCounters } };
  return Object.entries(leases?.counters ?? {}).map(([result, value]) => ({
    labels: { loop: loop.name, result },
    value,
  }));
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
