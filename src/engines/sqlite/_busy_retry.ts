import type { Clock } from "../../clock.ts";
import type { Maybe } from "../../mailbox/engine.ts";
import { isBusy } from "./_errors.ts";

/** How long another process may lock the file before a call fails. */
export const BUSY_TIMEOUT_MS = 5_000;

/** How long SQLite itself waits for a lock, which blocks the event loop. Most locks are shorter. */
export const BLOCKING_MS = 5;

const MIN_DELAY_MS = 1;
const MAX_DELAY_MS = 50;

/**
 * Runs `act`, and repeats it while another process locks the file. The delays do not block the event loop,
 * so that the process extends leases and handles signals meanwhile.
 */
export function retryWhileBusy<T>(clock: Clock, act: () => T): Maybe<T> {
  try {
    return act();
  } catch (error) {
    if (!isBusy(error)) throw error;
    return retry(clock, act);
  }
}

async function retry<T>(clock: Clock, act: () => T): Promise<T> {
  const endsAt = clock.monotonic() + BUSY_TIMEOUT_MS;
  for (let delayMs = MIN_DELAY_MS;; delayMs = Math.min(2 * delayMs, MAX_DELAY_MS)) {
    await clock.sleep(delayMs * (0.5 + Math.random()));
    try {
      return act();
    } catch (error) {
      if (!isBusy(error) || clock.monotonic() >= endsAt) throw error;
    }
  }
}
