import type { Clock } from "../../clock.ts";
import type { Maybe } from "../../mailbox/engine.ts";
import { isBusy } from "./_errors.ts";

/** How long others may hold the file before a call fails. */
export const BUSY_TIMEOUT_MS = 5_000;

/** As long as this SQLite itself waits, which blocks the process: most locks are shorter. */
export const BLOCKING_MS = 5;

const FIRST_PAUSE_MS = 1;
const LONGEST_PAUSE_MS = 50;

/**
 * Does `act`, again and again while another process holds the file. It waits without blocking, so that
 * leases are extended and signals heard meanwhile.
 */
export function patiently<T>(clock: Clock, act: () => T): Maybe<T> {
  try {
    return act();
  } catch (error) {
    if (!isBusy(error)) throw error;
    return insist(clock, act);
  }
}

async function insist<T>(clock: Clock, act: () => T): Promise<T> {
  const endsAt = clock.monotonic() + BUSY_TIMEOUT_MS;
  for (let pauseMs = FIRST_PAUSE_MS;; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
    await clock.sleep(pauseMs * (0.5 + Math.random()));
    try {
      return act();
    } catch (error) {
      if (!isBusy(error) || clock.monotonic() >= endsAt) throw error;
    }
  }
}
