/** A family of numbers under one name. */
export interface Metric {
  /** As Prometheus wants it: `lastcall_messages_total`. Names of counters end in `_total`. */
  readonly name: string;
  /** What the number counts, for the people who read it. */
  readonly help: string;
  /** A counter only grows; a gauge goes both ways. */
  readonly type: "counter" | "gauge";
  /** One for each combination of labels. */
  readonly samples: readonly MetricSample[];
}

/** One number. */
export interface MetricSample {
  /** Few and bounded: names of loops and outcomes, never ids. */
  readonly labels?: Readonly<Record<string, string>>;
  /** What it is now. */
  readonly value: number;
}

/** Whoever has numbers to show. */
export interface MetricSource {
  /** What they are now. The same names at every call, with zeros where nothing has happened. */
  metrics(): readonly Metric[] | Promise<readonly Metric[]>;
}
