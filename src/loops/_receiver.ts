import { backoffMs } from "../_backoff.ts";
import type { RunOptions } from "../lifecycle/runnable.ts";
import type { Message } from "../mailbox/mailbox.ts";
import type { MailboxRunConfig } from "./_mailbox_run_config.ts";

/**
 * A failing receive is tried again after pauses up to these. The longest is short, because an engine that
 * is back has work for us; half of it is random, so that a thousand workers do not come back as one.
 */
const PAUSE_MS = { min: 100, max: 1_000 } as const;

/** Receives for one run: waits for messages, survives failures of the engine, and rests meanwhile. */
export class Receiver<T, R> {
  readonly #config: MailboxRunConfig<T, R>;
  readonly #stopping: AbortSignal;
  readonly #visibilityTimeoutMs: number;
  readonly #waitTimeMs: number;
  #wait = new AbortController();
  /** How long the receive that is under way waits. */
  #waitingMs: number | undefined;
  #failures = 0;

  constructor(config: MailboxRunConfig<T, R>, stopping: AbortSignal, options: RunOptions) {
    this.#config = config;
    this.#stopping = stopping;
    this.#visibilityTimeoutMs = options.visibilityTimeoutMs ?? 300_000;
    this.#waitTimeMs = options.untilEmpty ? 0 : options.waitTimeMs ?? 20_000;
  }

  /** False while receiving fails. */
  get ready(): boolean {
    return this.#failures === 0;
  }

  /**
   * Receives at most `maxMessages`. Returns undefined when that failed, and when the first look after a
   * failure found nothing: neither is an iteration. Never rejects.
   */
  async receive(
    maxMessages: number,
    idle: boolean,
  ): Promise<readonly Message<T, R>[] | undefined> {
    const { heartbeat, mailbox } = this.#config;
    // After a failure only a look: it tells at once whether the engine is back, a wait would not.
    const look = this.#failures > 0;
    const waitTimeMs = look ? 0 : this.#waitTimeMs;
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
      return look && messages.length === 0 ? undefined : messages;
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
   * Tells the watchdog that a handler has ended. An idle loop that waits for messages rests: no beat is
   * expected before the wait is over. Where neither a receive nor the next handler is under way, a
   * receive follows, and beats when it returns.
   */
  onHandlerEnd(idle: boolean, nextStarted: boolean): void {
    const { heartbeat } = this.#config;
    const waitingMs = this.#waitingMs;
    if (idle && waitingMs !== undefined) heartbeat.rest(waitingMs);
    else if (nextStarted || waitingMs !== undefined) heartbeat.beat();
  }

  /** The longer a receive keeps failing, the rarer it is logged. */
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
