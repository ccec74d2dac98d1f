/** A metric with its samples. */
export interface Metric {
  /** The Prometheus name, as in `lastcall_messages_total`. Names of counters end in `_total`. */
  readonly name: string;
  /** The help text. */
  readonly help: string;
  /** A counter only grows; a gauge can go up and down. */
  readonly type: "counter" | "gauge";
  /** One sample per combination of labels. */
  readonly samples: readonly MetricSample[];
}

/** One value with its labels. */
export interface MetricSample {
  /** A bounded set: names of loops and outcomes, never ids. */
  readonly labels?: Readonly<Record<string, string>>;
  /** The current value. */
  readonly value: number;
}

/** A source of metrics. */
export interface MetricSource {
  /** Returns the current metrics. Every call returns the same names, with zeros for no events. */
  metrics(): readonly Metric[] | Promise<readonly Metric[]>;
}
