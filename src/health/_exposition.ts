import { Counter, Gauge, Registry } from "prom-client";
import type { Metric } from "./metric_source.ts";

/** The text of metrics, as Prometheus reads it, and its content type. */
export async function exposition(
  metrics: readonly Metric[],
): Promise<{ readonly text: string; readonly contentType: string }> {
  // What is shown is counted elsewhere: a registry lives for as long as it takes to write it down.
  const registry = new Registry();
  for (const { name, help, type, samples } of metrics) {
    const labelNames = [...new Set(samples.flatMap(({ labels = {} }) => Object.keys(labels)))];
    const options = { name, help, labelNames, registers: [registry] };
    const metric = type === "counter" ? new Counter(options) : new Gauge(options);
    for (const { labels = {}, value } of samples) metric.inc({ ...labels }, value);
  }
  return { text: await registry.metrics(), contentType: registry.contentType };
}
