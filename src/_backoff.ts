/** How long to pause before the next attempt. */
export interface BackoffOptions {
  /** The longest pause before the first retry; it doubles with each. */
  readonly minMs?: number;
  /** The longest pause of all. */
  readonly maxMs?: number;
}

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
  const longest = Math.min(maxMs, minMs * 2 ** (attempt - 1));
  return longest / 2 + random() * longest / 2;
}
