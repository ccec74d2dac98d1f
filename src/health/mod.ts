/**
 * The health of a group over HTTP: probes, Prometheus metrics, status and a live page. Needs `hono`.
 *
 * @module
 */

export { healthApp } from "./health_app.ts";
export type {
  AgentBoard,
  HealthCheck,
  HealthMember,
  HealthOptions,
  Inspectable,
  WatchedMailbox,
} from "./health_options.ts";
export type {
  AgentStatusLine,
  CronStatus,
  History,
  LeftOut,
  LetterStatus,
  LoopStatus,
  MailboxHistory,
  MailboxStatus,
  ProcessStatus,
  ReplicaStatus,
  Status,
  Totals,
} from "./status.ts";
export type { Metric, MetricSample, MetricSource } from "../telemetry/metrics.ts";
