import { backoffMs } from "../_backoff.ts";
import type { RunOptions } from "../lifecycle/runnable.ts";
import type { Message } from "../mailbox/mailbox.ts";
import type { MailboxRunConfig } from "./_handle.ts";

/**
 * The pauses between failed receives. The longest is short, so that work resumes soon after the engine is
 * back; half of it is random, so that many workers do not return at the same moment.
 */
const PAUSE_MS = { min: 100, max: 1_000 } as const;

/** Receives messages for one run, and tries again while the engine is unavailable. */
export class Receiver<T, R> {
  readonly #config: MailboxRunConfig<T, R>;
  readonly #stopping: AbortSignal;
  readonly #visibilityTimeoutMs: number;
  readonly #waitTimeMs: number;
  #wait = new AbortController();
  /** The wait time of the running receive. */
  #waitingMs: number | undefined;
  #failures = 0;

  constructor(config: MailboxRunConfig<T, R>, stopping: AbortSignal, options: RunOptions) {
    this.#config = config;
    this.#stopping = stopping;
    this.#visibilityTimeoutMs = options.visibilityTimeoutMs ?? 300_000;
    this.#waitTimeMs = options.untilEmpty ? 0 : options.waitTimeMs ?? 20_000;
  }

  /** False while receives fail. */
  get ready(): boolean {
    return this.#failures === 0;
  }

  /**
   * Receives at most `maxMessages`. Returns undefined when the receive failed, or when the first one after
   * a failure found nothing: neither counts as an iteration. Never rejects.
   */
  async receive(
    maxMessages: number,
    idle: boolean,
  ): Promise<readonly Message<T, R>[] | undefined> {
    const { heartbeat, mailbox } = this.#config;
    // After a failure do not wait: the answer tells at once that the engine is back.
    const isProbe = this.#failures > 0;
    const waitTimeMs = isProbe ? 0 : this.#waitTimeMs;
    if (this.#wait.signal.aborted) this.#wait = new AbortController();
    this.#waitingMs = waitTimeMs;
    if (idle) heartbeat.rest(waitTimeMs);
    try {
      const messages = await mailbox.receive({
        maxMessages,
        visibilityTimeoutMs: this.#visibilityTimeoutMs,
        waitTimeMs,
        signal: this.#wait.signal,
      });
      this.#failures = 0;
      return isProbe && messages.length === 0 ? undefined : messages;
    } catch (error) {
      await this.#pauseAfter(error);
      return undefined;
    } finally {
      this.#waitingMs = undefined;
      heartbeat.beat();
    }
  }

  /** Ends a receive that waits for messages. */
  endWait(): void {
    this.#wait.abort();
  }

  /**
   * Updates the heartbeat after a handler has ended. An idle loop that waits for messages rests until the
   * wait is over. If neither a receive nor a handler runs, the next receive beats when it returns.
   */
  onHandlerEnd(idle: boolean, nextStarted: boolean): void {
    const { heartbeat } = this.#config;
    const waitingMs = this.#waitingMs;
    if (idle && waitingMs !== undefined) heartbeat.rest(waitingMs);
    else if (nextStarted || waitingMs !== undefined) heartbeat.beat();
  }

  /** Logs the failures number 1, 2, 4, 8 and so on. */
  async #pauseAfter(error: unknown): Promise<void> {
    const { clock, log, mailbox } = this.#config;
    const failures = ++this.#failures;
    const pauseMs = backoffMs(failures, PAUSE_MS.min, PAUSE_MS.max);
    if (Number.isInteger(Math.log2(failures))) {
      log.warn(`could not receive from "${mailbox.name}"; trying again`, { error, failures });
    }
    await clock.sleep(pauseMs, { signal: this.#stopping }).catch(() => {
      // A stop began: there is nothing more to receive.
    });
  }
}
