/**
 * The names of all metrics, and the metrics of messages for OpenTelemetry. `/metrics` and OpenTelemetry read
 * their names and help texts from one table.
 *
 * @module
 */

import type { OpenTelemetry } from "./open_telemetry.ts";
import { messagingAttributes } from "./spans.ts";

/** A metric with its samples. */
export interface Metric {
  /** The Prometheus name, as in `lastcall_messages_total`. Names of counters end in `_total`. */
  readonly name: string;
  /** The help text. */
  readonly help: string;
  /** A counter only grows; a gauge can go up and down; a histogram counts values in buckets. */
  readonly type: "counter" | "gauge" | "histogram";
  /** One sample per combination of labels. Of a histogram: its buckets, its sum and its count. */
  readonly samples: readonly MetricSample[];
}

/** One value with its labels. */
export interface MetricSample {
  /** A bounded set: names of loops and outcomes, never ids. */
  readonly labels?: Readonly<Record<string, string>>;
  /** The current value. */
  readonly value: number;
  /** What the sample of a histogram is. Buckets are cumulative and have the label `le`. */
  readonly suffix?: "_bucket" | "_sum" | "_count";
}

/** A source of metrics. */
export interface MetricSource {
  /** Returns the current metrics. Every call returns the same names, with zeros for no events. */
  metrics(): readonly Metric[] | Promise<readonly Metric[]>;
}

/** The metrics and their help texts: the names of Prometheus first, then those of OpenTelemetry. */
const HELP = {
  lastcall_ready: "1 while new work should be sent here",
  lastcall_live: "0 when the process should be replaced",
  lastcall_paused: "1 while the group is paused",
  lastcall_phase: "1 for the phase of the group",
  lastcall_runs_total: "Runs of the group by outcome",
  lastcall_loop_ready: "1 while the loop can take work",
  lastcall_loop_in_flight: "Work in flight",
  lastcall_loop_oldest_work_seconds: "Age of the oldest work in flight",
  lastcall_loop_heartbeat_age_seconds: "Time since the last heartbeat of the loop",
  lastcall_loop_restarts_total: "Restarts of the loop after a failure",
  lastcall_messages_total: "Messages of the current run by outcome",
  lastcall_leases_total: "Lease extensions by result",
  lastcall_message_duration_seconds: "Time that handlers spent on messages",
  lastcall_mailbox_messages: "Messages in the mailbox by state",
  lastcall_mailbox_oldest_waiting_seconds: "Time since the oldest waiting message was sent",
  lastcall_mailbox_paused: "1 while the mailbox is paused for all processes",
  lastcall_mailbox_rate_limit_per_second:
    "Deliveries per second that the rate limit allows to all processes together",
  lastcall_service_requests_total: "Requests, admitted or refused",
  lastcall_service_in_flight: "Admitted requests whose responses are not sent yet",
  lastcall_pool_attempts_total: "Requests to workers, by outcome",
  lastcall_pool_retries_total:
    "Requests that were retried on another worker, by the failure before",
  lastcall_pool_none_healthy_total: "Requests to an unhealthy worker because none was healthy",
  lastcall_pool_health_checks_total: "Health checks of workers, by result",
  lastcall_pool_workers: "Workers by state",
  lastcall_pool_in_flight: "Requests in flight to workers",
  "lastcall.messages": "Handled messages by outcome",
  "lastcall.messages.in_flight": "Messages whose handler is running",
  "messaging.process.duration": "Time that handlers spent on messages",
} as const;

/** The names of the Prometheus metrics. */
type PrometheusName = Extract<keyof typeof HELP, `lastcall_${string}`>;

/** The labels of the outcomes of messages, by their names in `MessageCounts`. */
export const OUTCOME_LABELS = {
  received: "received",
  acknowledged: "acknowledged",
  released: "released",
  nacked: "nacked",
  deadLettered: "dead_lettered",
  cancelled: "cancelled",
} as const;

/** The label of one outcome of a message. */
export type OutcomeLabel = typeof OUTCOME_LABELS[keyof typeof OUTCOME_LABELS];

/** Returns a metric of the table. A single number is one sample with the `labels`. */
export function metric(
  name: PrometheusName,
  samples: number | readonly MetricSample[],
  labels: Readonly<Record<string, string>> = {},
): Metric {
  const type = name.endsWith("_total")
    ? "counter"
    : name.endsWith("_duration_seconds")
    ? "histogram"
    : "gauge";
  const list = typeof samples === "number" ? [{ labels, value: samples }] : samples;
  return { name, help: HELP[name], type, samples: list };
}

/** Returns one sample per entry of `counts`, with its key as the label `label`. */
export function samplesBy(
  label: string,
  counts: Readonly<Record<string, number>>,
  labels: Readonly<Record<string, string>> = {},
): MetricSample[] {
  return Object.entries(counts).map(([key, value]) => ({
    labels: { ...labels, [label]: key },
    value,
  }));
}

/**
 * The upper bounds of the buckets of durations: up to 10 s as the messaging conventions of OpenTelemetry
 * recommend, then up to 5 minutes for agents.
 */
export const DURATION_BOUNDARIES_S: readonly number[] = [
  ...[0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10],
  ...[30, 60, 300],
];

/**
 * Measures one message. The caller calls it when the handler starts, and calls the returned function with
 * the outcome and the duration when the handler ends.
 */
export type MeasureMessage = (
  mailbox: string,
) => (outcome: OutcomeLabel, seconds: number) => void;

let cached: { readonly provider: unknown; readonly measure: MeasureMessage } | undefined;

/** Returns the metrics of messages. Their labels are mailbox names and outcomes, never message ids. */
export function messageMetrics(api: OpenTelemetry): MeasureMessage {
  const provider = api.metrics.getMeterProvider();
  // Instruments belong to one provider: create them again when the application registers another.
  if (cached?.provider !== provider) cached = { provider, measure: createInstruments(api) };
  return cached.measure;
}

function createInstruments(api: OpenTelemetry): MeasureMessage {
  const meter = api.metrics.getMeter("lastcall");
  const durations = meter.createHistogram("messaging.process.duration", {
    description: HELP["messaging.process.duration"],
    unit: "s",
    advice: { explicitBucketBoundaries: [...DURATION_BOUNDARIES_S] },
  });
  const messages = meter.createCounter("lastcall.messages", {
    description: HELP["lastcall.messages"],
    unit: "{message}",
  });
  const inFlight = meter.createUpDownCounter("lastcall.messages.in_flight", {
    description: HELP["lastcall.messages.in_flight"],
    unit: "{message}",
  });
  return (mailbox) => {
    const attributes = messagingAttributes(mailbox, "process");
    inFlight.add(1, attributes);
    return (outcome, seconds) => {
      inFlight.add(-1, attributes);
      const withOutcome = { ...attributes, "lastcall.outcome": outcome };
      durations.record(seconds, withOutcome);
      messages.add(1, withOutcome);
    };
  };
}
