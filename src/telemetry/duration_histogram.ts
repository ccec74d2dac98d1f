import { DURATION_BOUNDARIES_S, type MetricSample } from "./metrics.ts";

const BOUNDARIES_MS = DURATION_BOUNDARIES_S.map((seconds) => seconds * 1_000);

/** Counts durations in buckets. Recording one allocates nothing. */
export class DurationHistogram {
  /** The counts of the buckets, each without the ones before. The last one has no upper bound. */
  readonly #counts: number[] = new Array(BOUNDARIES_MS.length + 1).fill(0);
  #sumMs = 0;

  /** Records a duration in milliseconds. */
  record(ms: number): void {
    let bucket = 0;
    // Most handlers are fast: the first buckets are the most likely ones.
    while (bucket < BOUNDARIES_MS.length && ms > BOUNDARIES_MS[bucket]!) bucket++;
    this.#counts[bucket]!++;
    this.#sumMs += ms;
  }

  /** Returns the samples of a Prometheus histogram in seconds. */
  samples(labels: Readonly<Record<string, string>>): readonly MetricSample[] {
    let count = 0;
    const buckets = this.#counts.map((inBucket, i): MetricSample => {
      const le = i < DURATION_BOUNDARIES_S.length ? String(DURATION_BOUNDARIES_S[i]) : "+Inf";
      return { suffix: "_bucket", labels: { le, ...labels }, value: count += inBucket };
    });
    return [
      ...buckets,
      { suffix: "_sum", labels, value: this.#sumMs / 1_000 },
      { suffix: "_count", labels, value: count },
    ];
  }
}
