import { backoffMs } from "../_backoff.ts";
import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import { isMailboxError } from "../mailbox/errors.ts";

/** Options of {@linkcode retryUnavailable}. */
export interface RetryOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** The log line for a failed call, such as `receive failed, retrying`. */
  readonly event: string;
  /** The name of the mailbox, for the log. */
  readonly mailbox: string;
  /** Ends the retries: the last error is thrown. */
  readonly signal: AbortSignal;
}

const DELAY_MS = { min: 100, max: 1_000 } as const;

/** Calls `call` until it succeeds, as long as it fails because a mailbox is disconnected or full. */
export async function retryUnavailable<T>(
  call: () => Promise<T>,
  { clock, log, event, mailbox, signal }: RetryOptions,
): Promise<T> {
  for (let failures = 1;; failures++) {
    try {
      return await call();
    } catch (error) {
      const isTemporary = isMailboxError(error, "MailboxConnectionError") ||
        isMailboxError(error, "MailboxFullError");
      if (!isTemporary || signal.aborted) throw error;
      // Log failures 1, 2, 4, 8 and so on, so that a long outage does not flood the log.
      if (Number.isInteger(Math.log2(failures))) log.warn(event, { mailbox, error, failures });
      await clock.sleep(backoffMs(failures, DELAY_MS.min, DELAY_MS.max), { signal }).catch(() => {
        throw error;
      });
    }
  }
}
