import { checkDuration, MAX_VISIBILITY_MS } from "./_checks.ts";
import { type Random, systemRandom } from "./random.ts";

/** The pauses before retries, in milliseconds from 0 to 43 200 000 (12 hours). */
export interface BackoffOptions {
  /** The longest pause before the first retry. It doubles with each retry. */
  readonly minMs?: number;
  /** The longest pause before any retry. */
  readonly maxMs?: number;
}

/** Adds the defaults. Throws a `RangeError` for a pause longer than a mailbox supports. */
export function checkBackoff(
  { minMs, maxMs }: BackoffOptions,
  defaults: Required<BackoffOptions>,
): Required<BackoffOptions> {
  if (minMs !== undefined) checkDuration("backoff.minMs", minMs, MAX_VISIBILITY_MS);
  if (maxMs !== undefined) checkDuration("backoff.maxMs", maxMs, MAX_VISIBILITY_MS);
  if (minMs !== undefined && maxMs !== undefined && minMs > maxMs) {
    throw new RangeError(
      `Invalid backoff.minMs: expected at most backoff.maxMs (${maxMs}), got ${minMs}`,
    );
  }
  return {
    minMs: minMs ?? Math.min(defaults.minMs, maxMs ?? Infinity),
    maxMs: maxMs ?? Math.max(defaults.maxMs, minMs ?? 0),
  };
}

/** The largest exponent for which `2 ** n` is finite; 0 times `Infinity` would be `NaN`. */
const MAX_DOUBLINGS = 1_023;

/**
 * Returns the pause before retry number `attempt`, counted from 1. Half of the pause is random, so that
 * messages that failed together are not retried together.
 */
export function backoffMs(
  attempt: number,
  minMs: number,
  maxMs: number,
  random: Random = systemRandom,
): number {
  const longest = Math.min(maxMs, minMs * 2 ** Math.min(attempt - 1, MAX_DOUBLINGS));
  return longest / 2 + random.number() * longest / 2;
}
