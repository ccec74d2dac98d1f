import { backoffMs } from "../_backoff.ts";
import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import { isMailboxError } from "../mailbox/errors.ts";

/** What patience needs. */
export interface Patience {
  readonly clock: Clock;
  readonly log: Log;
  /** Ends it: what fails then fails for good. */
  readonly signal: AbortSignal;
}

const PAUSE_MS = { min: 100, max: 1_000 } as const;

/** Tries again while a mailbox is away or full. */
export async function patiently<T>(
  what: string,
  act: () => Promise<T>,
  { clock, log, signal }: Patience,
): Promise<T> {
  for (let failures = 1;; failures++) {
    try {
      return await act();
    } catch (error) {
      const passes = isMailboxError(error, "MailboxConnectionError") ||
        isMailboxError(error, "MailboxFullError");
      if (!passes || signal.aborted) throw error;
      // The longer it keeps failing, the rarer it is told.
      if (Number.isInteger(Math.log2(failures))) {
        log.warn(`could not ${what}; trying again`, { error, failures });
      }
      await clock.sleep(backoffMs(failures, PAUSE_MS.min, PAUSE_MS.max), { signal }).catch(() => {
        throw error;
      });
    }
  }
}
