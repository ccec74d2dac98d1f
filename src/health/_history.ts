import type { Cancel, Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import type { StatusSource } from "./_status_source.ts";
import type { Inspectable } from "./health_options.ts";
import type { History } from "./status.ts";

const EVERY_MS = 15_000;
/** The samples of one hour. */
const MAX_SAMPLES = 240;
const MAX_MAILBOXES = 50;

/** The last samples of one number. NaN stands for a number that is not known. */
class Series {
  readonly #values = new Float64Array(MAX_SAMPLES).fill(NaN);

  set(sample: number, value: number | undefined): void {
    this.#values[sample % MAX_SAMPLES] = value ?? NaN;
  }

  /** Returns the `count` values up to the sample before `end`, the oldest first. */
  list(end: number, count: number): readonly (number | null)[] {
    return Array.from({ length: count }, (_, i) => {
      const value = this.#values[(end - count + i) % MAX_SAMPLES]!;
      return Number.isNaN(value) ? null : value;
    });
  }
}

/**
 * Records the counts of the last hour while the group runs, also when no client asks for them. It asks the
 * engines of the first {@linkcode MAX_MAILBOXES} mailboxes, each once per sample.
 */
export class HistoryRecorder {
  readonly #group: Inspectable;
  readonly #source: StatusSource;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #remove: Cancel | undefined;
  readonly #perSecond = new Series();
  readonly #mailboxes = new Map<string, { readonly waiting: Series; readonly inFlight: Series }>();
  #cancelTick: Cancel | undefined;
  #isSampling = false;
  /** The number of samples so far, including those that were missed. */
  #samples = 0;
  #sampledAt: number | undefined;
  #counted: { readonly at: number; readonly byLoop: ReadonlyMap<string, number> } | undefined;

  /** Follows the phases of the group. A group without events has no history. */
  constructor(
    group: Inspectable,
    source: StatusSource,
    { clock, log }: { readonly clock: Clock; readonly log: Log },
  ) {
    this.#group = group;
    this.#source = source;
    this.#clock = clock;
    this.#log = log;
    this.#remove = group.on?.("phase", () => this.#follow());
    if (this.#remove !== undefined) this.#follow();
  }

  /** Stops the timer and the running queries, and leaves the group. */
  close(): void {
    this.#remove?.();
    this.#stop();
  }

  /** Returns the samples of the last hour. */
  get history(): History {
    const end = this.#samples;
    const count = Math.min(end, MAX_SAMPLES);
    const mailboxes = [...this.#mailboxes].map(([name, { waiting, inFlight }]) => {
      return [name, { waiting: waiting.list(end, count), inFlight: inFlight.list(end, count) }];
    });
    return {
      everyMs: EVERY_MS,
      at: this.#sampledAt ?? this.#clock.now(),
      perSecond: this.#perSecond.list(end, count),
      mailboxes: Object.fromEntries(mailboxes),
    };
  }

  #follow(): void {
    const { phase, phases } = this.#group.health();
    const isRunning = phases.length > 0 && phase !== "stopped";
    if (!isRunning) return this.#stop();
    if (this.#cancelTick !== undefined) return;
    this.#rate(); // the first sample compares with this count
    this.#schedule();
  }

  #schedule(): void {
    this.#cancelTick = this.#clock.schedule(EVERY_MS, () => {
      this.#schedule();
      this.#sample().catch((error) => this.#log.error("history not recorded", { error }));
    });
  }

  #stop(): void {
    this.#cancelTick?.();
    this.#cancelTick = undefined;
    this.#counted = undefined; // counts begin again with the next run
    this.#source.abandon();
  }

  async #sample(): Promise<void> {
    if (this.#isSampling) return; // an engine is slower than the interval
    const at = this.#clock.now();
    const perSecond = this.#rate();
    this.#isSampling = true;
    const counts = await this.#source.sample(MAX_MAILBOXES)
      .finally(() => this.#isSampling = false);
    if (this.#cancelTick === undefined) return; // the group has stopped meanwhile
    this.#advance(at);
    const sample = this.#samples - 1;
    this.#perSecond.set(sample, perSecond);
    for (const [name, { waiting, inFlight }] of counts) {
      const series = this.#mailboxes.get(name) ?? { waiting: new Series(), inFlight: new Series() };
      this.#mailboxes.set(name, series);
      series.waiting.set(sample, waiting);
      series.inFlight.set(sample, inFlight);
    }
  }

  /** Begins the sample of this time. Samples were missed while the group or the machine did not run. */
  #advance(at: number): void {
    const elapsedMs = at - (this.#sampledAt ?? at - EVERY_MS);
    const steps = Math.min(Math.max(1, Math.round(elapsedMs / EVERY_MS)), MAX_SAMPLES);
    const all = [...this.#mailboxes.values()].flatMap((it) => [it.waiting, it.inFlight]);
    for (let step = 0; step < steps; step++, this.#samples++) {
      for (const series of [this.#perSecond, ...all]) series.set(this.#samples, undefined);
    }
    this.#sampledAt = at;
  }

  /** Returns the acknowledged messages per second since the last call, to a thousandth. */
  #rate(): number | undefined {
    const { loops } = this.#group;
    const byLoop = new Map(loops.map(({ name, counts }) => [name, counts?.acknowledged ?? 0]));
    const before = this.#counted;
    const at = this.#clock.monotonic();
    this.#counted = { at, byLoop };
    if (before === undefined || at <= before.at) return undefined;
    let growth = 0;
    for (const [name, count] of byLoop) {
      const earlier = before.byLoop.get(name) ?? 0;
      growth += count >= earlier ? count - earlier : count; // a lower count is that of a new run
    }
    return Math.round(growth * 1_000_000 / (at - before.at)) / 1_000;
  }
}
