import { checkDuration, MAX_VISIBILITY_MS } from "./_checks.ts";

/** How long to pause before the next attempt, from 0 to 43 200 000 (12 hours). */
export interface BackoffOptions {
  /** The longest pause before the first retry; it doubles with each. */
  readonly minMs?: number;
  /** The longest pause of all. */
  readonly maxMs?: number;
}

/** Fills in what is not given, and refuses pauses that no mailbox can make. */
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

/** The largest power of two that is a number: 0 times a larger one is not. */
const MOST_DOUBLINGS = 1_023;

/**
 * The pause before retry number `attempt`, counted from 1. Half of it is random, so that what failed
 * together does not come back together.
 */
export function backoffMs(
  attempt: number,
  minMs: number,
  maxMs: number,
  random: () => number = Math.random,
): number {
  const longest = Math.min(maxMs, minMs * 2 ** Math.min(attempt - 1, MOST_DOUBLINGS));
  return longest / 2 + random() * longest / 2;
}
