import type { Clock } from "../clock.ts";

/** A count, and when it was read. */
interface Look {
  readonly at: number;
  readonly count: number;
}

/** Rates are of at most so long ago. */
const WINDOW_MS = 10_000;
/** Looks that are closer together tell nothing. */
const SPACING_MS = 500;

/** Computes rates from counts. It reads the counts only when a client asks for the status. */
export class Rates {
  readonly #clock: Clock;
  readonly #looks = new Map<string, Look[]>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The growth a second since the first look of the last seconds; undefined at the first. */
  perSecond(name: string, count: number): number | undefined {
    const now = this.#clock.monotonic();
    // A count that is lower than it was has begun anew.
    const looks = (this.#looks.get(name) ?? [])
      .filter(({ at, count: was }) => now - at <= WINDOW_MS && was <= count);
    const [first] = looks;
    if (now - (looks.at(-1)?.at ?? -Infinity) >= SPACING_MS) looks.push({ at: now, count });
    this.#looks.set(name, looks);
    if (first === undefined || now - first.at < SPACING_MS) return undefined;
    return (count - first.count) * 1_000 / (now - first.at);
  }
}
