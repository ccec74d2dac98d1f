/**
 * Tells probes, Prometheus and people how a group is doing. Needs `hono`; `/metrics` needs
 * `prom-client`.
 *
 * @module
 */

export { healthApp } from "./health_app.ts";
export type { HealthCheck, HealthOptions, Inspectable } from "./health_options.ts";
export type { Metric, MetricSample, MetricSource } from "./metric_source.ts";
