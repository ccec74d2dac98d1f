import { backoffMs } from "../_backoff.ts";
import type { LoopContext } from "../lifecycle/base_loop.ts";
import { isMailboxError } from "../mailbox/errors.ts";
import type { Message } from "../mailbox/mailbox.ts";
import type { RunConfig } from "./_run_config.ts";

/** The least number of attempts at an engine call before the message is left to its lease. */
const ATTEMPTS = 5;

/**
 * The pauses between failed calls of the engine. The longest is short, so that work resumes soon after the
 * engine is back; half of it is random, so that many workers do not return at the same moment.
 */
export const ENGINE_PAUSE_MS = { min: 100, max: 1_000 } as const;

/** The signals of a run. */
type Signals = Pick<LoopContext, "stopping" | "signal">;

/**
 * The calls that settle messages. A failed call is repeated. While the engine is unavailable, it is repeated for as
 * long as the lease lasts, because a lease that expires costs an attempt and hides the message until then. During a
 * stop only an acknowledgement is repeated for so long, because the work must not be done twice. An expired receipt
 * handle ends the attempts: the message belongs to another worker. No call rejects.
 */
export class SettlingCalls<T, R> {
  readonly #config: RunConfig<T, R>;
  readonly #context: Signals;

  constructor(config: RunConfig<T, R>, context: Signals) {
    this.#config = config;
    this.#context = context;
  }

  /** Settles one message. Returns false if all attempts failed. */
  async one(what: string, message: Message<T, R>, call: () => Promise<void>): Promise<boolean> {
    const [settled = false] = await this.many(what, [message], async () => {
      await call();
      return [true];
    });
    return settled;
  }

  /**
   * Settles messages in one call. Returns for each message whether it was settled, or an empty list if all attempts
   * failed.
   */
  async many(
    what: string,
    messages: readonly Message<T, R>[],
    call: () => Promise<readonly boolean[]>,
  ): Promise<readonly boolean[]> {
    const { mailbox, clock, log, visibilityTimeoutMs } = this.#config;
    const { stopping, signal } = this.#context;
    const endsAt = clock.monotonic() + visibilityTimeoutMs;
    for (let attempt = 1;; attempt++) {
      try {
        return await call();
      } catch (error) {
        if (isMailboxError(error, "MessageFinalizedError")) return [];
        // A stop need not wait for a failed release or nack: the message reappears when its lease expires.
        const isOver = what === "acknowledge" ? signal.aborted : stopping.aborted;
        const away = isMailboxError(error, "MailboxConnectionError") && !isOver &&
          clock.monotonic() < endsAt;
        const stale = isMailboxError(error, "ReceiptHandleExpiredError");
        const closed = isMailboxError(error, "MailboxClosedError");
        const last = stale || closed || attempt >= ATTEMPTS && !away;
        if (last || attempt <= ATTEMPTS) {
          const next = last ? "reappears when its visibility timeout passes" : "trying again";
          const ids = messages.map(({ id }) => id);
          log.warn(`${what} failed`, { mailbox: mailbox.name, ids, attempt, next, error });
        }
        if (last || !await this.#pauseAfter(attempt)) return [];
      }
    }
  }

  /** Returns false when no time is left for another attempt. */
  async #pauseAfter(attempt: number): Promise<boolean> {
    const { clock, random } = this.#config;
    const { signal } = this.#context;
    const ms = backoffMs(attempt, ENGINE_PAUSE_MS.min, ENGINE_PAUSE_MS.max, random);
    const pause = attempt < ATTEMPTS ? clock.sleep(ms) : clock.sleep(ms, { signal });
    return await pause.then(() => true, () => false);
  }
}
