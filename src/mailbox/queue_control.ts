import { checkCount, checkDuration, checkInterval, show } from "../_checks.ts";
import type { EngineStats, RateLimit } from "./engine.ts";

const MAX_DELIVERIES = 1_000_000;
const MIN_PERIOD_MS = 1;
const MAX_PERIOD_MS = 86_400_000;

/** The deliveries of a period are counted in so many parts. A full rate falls short by one part. */
const PARTS = 50;

/** Checks a rate limit. @throws {TypeError | RangeError} when it is invalid */
export function checkRateLimit(limit: RateLimit): RateLimit {
  if (typeof limit !== "object" || limit === null) {
    throw new TypeError(`Invalid rate limit: expected { max, perMs } or false, got ${show(limit)}`);
  }
  return {
    max: checkCount("max", limit.max, 1, MAX_DELIVERIES),
    perMs: checkPeriod(limit.perMs),
  };
}

/** A fraction of a millisecond would divide the time into parts that a number cannot count. */
function checkPeriod(perMs: number): number {
  checkInterval("perMs", perMs, MAX_PERIOD_MS);
  if (perMs >= MIN_PERIOD_MS) return perMs;
  throw new RangeError(
    `Invalid perMs: expected milliseconds from ${MIN_PERIOD_MS} to ${MAX_PERIOD_MS}, got ${perMs}`,
  );
}

/** What {@linkcode QueueControl} stores. All times are of the clock that its callers use. */
export interface ControlState {
  /** When the pause ends, in milliseconds; `null` for a pause that lasts until it is resumed. */
  readonly pausedUntil?: number | null | undefined;
  /** The rate limit. */
  readonly limit?: RateLimit | undefined;
  /** The number of a part of a period, counted from time 0, and its deliveries, in turn. Oldest part first. */
  readonly counts?: readonly number[] | undefined;
}

/** How many messages a receive may deliver. */
export interface Allowance {
  /** At most so many. */
  readonly max: number;
  /** With a `max` of 0: in how many milliseconds it rises. `Infinity` in a pause without an end. */
  readonly nextMs: number;
}

/**
 * The pause and the rate limit of one queue. Engines keep its `state` with the queue, as JSON, or do the same
 * in their own language.
 *
 * The limit holds for every period of `perMs`, wherever the period begins. Deliveries in the same part of a
 * period, a fiftieth of it, are counted together, and count until `perMs` after the end of their part.
 */
export class QueueControl {
  #pausedUntil: number;
  #limit: RateLimit | undefined;
  #counts: readonly number[];

  /** Creates the control of a queue from its stored state. */
  constructor({ pausedUntil = 0, limit, counts = [] }: ControlState = {}) {
    this.#pausedUntil = pausedUntil ?? Infinity;
    this.#limit = limit;
    this.#counts = counts;
  }

  /**
   * Reads a stored state. One that cannot be read is a pause until it is resumed: deliveries might break the pause
   * or the limit that was stored, and the statistics show the pause.
   */
  static parse(text: string): QueueControl {
    return new QueueControl(readState(text) ?? { pausedUntil: null });
  }

  /** The state to store; undefined when there is neither a pause nor a limit. */
  get state(): ControlState | undefined {
    const [pausedUntil, limit, counts] = [this.#pausedUntil, this.#limit, this.#counts];
    if (pausedUntil === 0 && limit === undefined) return undefined;
    return {
      ...(pausedUntil > 0 && { pausedUntil: pausedUntil === Infinity ? null : pausedUntil }),
      ...(limit !== undefined && { limit, counts }),
    };
  }

  /** Stops the deliveries for `forMs`, unless they are stopped for longer. With 0 it continues them. */
  pause(forMs: number, now: number): void {
    this.#pausedUntil = forMs === 0 ? 0 : Math.max(this.#pausedUntil, now + forMs);
  }

  /** Sets or ends the limit. What was delivered before counts under a new limit with the same period. */
  limit(limit: RateLimit | undefined): void {
    if (limit?.perMs !== this.#limit?.perMs) this.#counts = [];
    this.#limit = limit;
  }

  /** Returns how many of `max` messages may be delivered now. */
  allowance(max: number, now: number): Allowance {
    if (this.#pausedUntil > now) return { max: 0, nextMs: this.#pausedUntil - now };
    if (this.#limit === undefined) return { max, nextMs: 0 };
    const { max: most, perMs } = this.#limit;
    const partMs = perMs / PARTS;
    const current = Math.floor(now / partMs);
    let delivered = 0;
    const counts: number[] = [];
    for (let i = 0; i < this.#counts.length; i += 2) {
      const [part, count] = [this.#counts[i]!, this.#counts[i + 1]!];
      // A part in the future was counted before the clock was set back. Only the numbers of parts are exact.
      if ((part + 1) * partMs + perMs <= now || part > current) continue;
      counts.push(part, count);
      delivered += count;
    }
    this.#counts = counts;
    if (delivered < most) return { max: Math.min(max, most - delivered), nextMs: 0 };
    return { max: 0, nextMs: Math.max(1, (counts[0]! + 1) * partMs + perMs - now) };
  }

  /** Counts deliveries. Returns whether the state has changed. */
  delivered(count: number, now: number): boolean {
    if (this.#limit === undefined || count === 0) return false;
    const part = Math.floor(now / (this.#limit.perMs / PARTS));
    const isSame = this.#counts.at(-2) === part;
    this.#counts = isSame
      ? this.#counts.with(-1, this.#counts.at(-1)! + count)
      : [...this.#counts, part, count];
    return true;
  }

  /** Returns the part of the engine's statistics that describes the control. */
  stats(now: number): Pick<EngineStats, "paused" | "pausedForMs" | "rateLimit"> {
    const leftMs = this.#pausedUntil - now;
    return {
      paused: leftMs > 0,
      ...(leftMs > 0 && leftMs < Infinity && { pausedForMs: leftMs }),
      ...(this.#limit !== undefined && { rateLimit: this.#limit }),
    };
  }
}

function readState(text: string): ControlState | undefined {
  try {
    const { pausedUntil, limit, counts = [] }: ControlState = JSON.parse(text);
    if (pausedUntil !== undefined && pausedUntil !== null) {
      checkDuration("pausedUntil", pausedUntil);
    }
    if (!Array.isArray(counts) || counts.length % 2 !== 0) return undefined;
    for (const count of counts) checkCount("counts", count);
    return { pausedUntil, limit: limit === undefined ? undefined : checkRateLimit(limit), counts };
  } catch {
    return undefined; // no JSON, or values that no control stores
  }
}
