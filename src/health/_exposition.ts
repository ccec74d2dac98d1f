import type { Metric, MetricSample } from "./metric_source.ts";

/** The content type of {@linkcode exposition}. */
export const EXPOSITION_TYPE = "text/plain; version=0.0.4; charset=utf-8";

const METRIC_NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const LABEL_NAME = /^[a-zA-Z_][a-zA-Z0-9_]*$/;

/**
 * Writes metrics in the text format of Prometheus. Prometheus refuses a name or a sample that occurs
 * twice: metrics of one name become one, and the values of samples with the same labels are added.
 */
export function exposition(metrics: readonly Metric[]): string {
  const families = new Map<
    string,
    { readonly metric: Metric; readonly values: Map<string, number> }
  >();
  for (const metric of metrics) {
    const family = families.get(metric.name) ?? { metric, values: new Map() };
    families.set(metric.name, family);
    for (const sample of metric.samples) {
      const labels = labelsOf(sample);
      family.values.set(labels, (family.values.get(labels) ?? 0) + sample.value);
    }
  }
  return [...families.values()].map(({ metric: { name, help, type }, values }) =>
    [
      `# HELP ${name} ${escapeText(help)}`,
      `# TYPE ${name} ${type}`,
      ...[...values].map(([labels, value]) => `${name}${labels} ${numberText(value)}`),
    ].join("\n")
  ).join("\n\n") + "\n";
}

/** Refuses a name that would make the whole text unreadable for Prometheus. */
export function checkMetrics(metrics: readonly Metric[]): readonly Metric[] {
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

function labelsOf({ labels = {} }: MetricSample): string {
  const pairs = Object.entries(labels).map(([name, value]) =>
    `${name}="${escapeText(String(value)).replaceAll('"', '\\"')}"`
  );
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

function numberText(value: number): string {
  if (Number.isFinite(value) || Number.isNaN(value)) return String(value);
  return value > 0 ? "+Inf" : "-Inf";
}

/** Help texts and values of labels are one line. */
function escapeText(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
}
