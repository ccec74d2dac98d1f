import { settlesWithin } from "../_promises.ts";
import type { Clock } from "../clock.ts";
import type { LeaseCounters } from "../lease/lease_extender.ts";
import { PHASES } from "../lifecycle/group_events.ts";
import { NO_COUNTS, type Runnable } from "../lifecycle/runnable.ts";
import type { Log } from "../log.ts";
import {
  type Metric,
  metric,
  type MetricSample,
  type MetricSource,
  OUTCOME_LABELS,
  samplesBy,
} from "../telemetry/metrics.ts";
import type { Inspectable } from "./health_options.ts";

/** The content type of {@linkcode prometheusText}. */
export const PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** How long each source of metrics may take. */
export const SOURCE_TIMEOUT_MS = 1_000;

const METRIC_NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const LABEL_NAME = /^[a-zA-Z_][a-zA-Z0-9_]*$/;

/** Returns the metrics of a group and its loops. */
export function groupMetrics(group: Inspectable): readonly Metric[] {
  const health = group.health();
  const perLoop = (value: (loop: typeof health.loops[number]) => number): MetricSample[] =>
    health.loops.map((loop) => ({ labels: { loop: loop.name }, value: value(loop) }));
  const phases = PHASES.map((phase) => {
    return { labels: { phase }, value: Number(phase === health.phase) };
  });
  return [
    metric("lastcall_ready", Number(health.ready)),
    metric("lastcall_live", Number(health.live)),
    metric("lastcall_paused", Number(health.paused)),
    metric("lastcall_phase", phases),
    metric("lastcall_runs_total", samplesBy("outcome", group.outcomes)),
    metric("lastcall_loop_ready", perLoop(({ ready }) => Number(ready))),
    metric("lastcall_loop_in_flight", perLoop(({ inFlight }) => inFlight)),
    metric("lastcall_loop_oldest_work_seconds", perLoop(({ oldestMs }) => oldestMs / 1_000)),
    metric(
      "lastcall_loop_heartbeat_age_seconds",
      perLoop(({ heartbeatAgeMs = 0 }) => heartbeatAgeMs / 1_000),
    ),
    metric("lastcall_loop_restarts_total", perLoop(({ restarts }) => restarts)),
    metric("lastcall_messages_total", group.loops.flatMap(messageSamples)),
    metric(
      "lastcall_leases_total",
      group.loops.flatMap((loop) => {
        return samplesBy("result", { ...leaseCounters(loop) }, { loop: loop.name });
      }),
    ),
    metric("lastcall_message_duration_seconds", group.loops.flatMap(durationSamples)),
  ];
}

/** Returns the counts of lease extensions, where the loop has them. */
export function leaseCounters(loop: Runnable | undefined): LeaseCounters | undefined {
  const { leases } = Object(loop) as { readonly leases?: { readonly counters?: LeaseCounters } };
  return leases?.counters;
}

/** Returns the durations of handler calls, where the loop has them. */
function durationSamples(loop: Runnable): readonly MetricSample[] {
  const { durations = [] } = loop as Runnable & { readonly durations?: readonly MetricSample[] };
  return durations;
}

function messageSamples({ name: loop, counts }: Runnable): readonly MetricSample[] {
  if (counts === undefined) return [];
  const outcomes = Object.keys(OUTCOME_LABELS) as (keyof typeof OUTCOME_LABELS)[];
  return outcomes.map((key) => ({
    labels: { loop, outcome: OUTCOME_LABELS[key] },
    value: { ...NO_COUNTS, ...counts }[key],
  }));
}

/** Returns the metrics of the sources. Leaves out those that fail or take too long. */
export async function sourceMetrics(
  sources: readonly MetricSource[],
  clock: Clock,
  log: Log,
): Promise<readonly Metric[]> {
  const collected = await Promise.all(sources.map(async (source) => {
    let found: readonly Metric[] = [];
    const collecting = Promise.resolve().then(() => source.metrics())
      .then((metrics) => void (found = checkMetrics(metrics)))
      .catch((error) => log.warn("metrics not collected", { error }));
    await settlesWithin(collecting, SOURCE_TIMEOUT_MS, clock);
    return found;
  }));
  return collected.flat();
}

/** Throws for a name that would make the whole text unreadable for Prometheus. */
function checkMetrics(metrics: readonly Metric[]): readonly Metric[] {
  for (const { name, samples } of metrics) {
    if (!METRIC_NAME.test(name)) {
      throw new TypeError(`Invalid metric name "${name}": expected ${METRIC_NAME}`);
    }
    const label = samples.flatMap(({ labels = {} }) => Object.keys(labels))
      .find((it) => !LABEL_NAME.test(it));
    if (label !== undefined) {
      throw new TypeError(`Invalid label "${label}" of metric "${name}": expected ${LABEL_NAME}`);
    }
  }
  return metrics;
}

/**
 * Writes metrics in the text format of Prometheus. Prometheus refuses a name or a sample that occurs
 * twice: metrics of one name become one, and the values of samples with the same labels are added.
 */
export function prometheusText(metrics: readonly Metric[]): string {
  const families = new Map<
    string,
    { readonly metric: Metric; readonly values: Map<string, number> }
  >();
  for (const metric of metrics) {
    const family = families.get(metric.name) ?? { metric, values: new Map() };
    families.set(metric.name, family);
    for (const sample of metric.samples) {
      const ending = `${sample.suffix ?? ""}${labelsText(sample)}`;
      family.values.set(ending, (family.values.get(ending) ?? 0) + sample.value);
    }
  }
  return [...families.values()].map(({ metric: { name, help, type }, values }) =>
    [
      `# HELP ${name} ${escapeText(help)}`,
      `# TYPE ${name} ${type}`,
      ...[...values].map(([ending, value]) => `${name}${ending} ${numberText(value)}`),
    ].join("\n")
  ).join("\n\n") + "\n";
}

function labelsText({ labels = {} }: MetricSample): string {
  const pairs = Object.entries(labels).map(([name, value]) =>
    `${name}="${escapeText(String(value)).replaceAll('"', '\\"')}"`
  );
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

function numberText(value: number): string {
  if (Number.isFinite(value) || Number.isNaN(value)) return String(value);
  return value > 0 ? "+Inf" : "-Inf";
}

function escapeText(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}
