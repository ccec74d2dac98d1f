import { backoffMs } from "../_backoff.ts";
import type { RunOptions } from "../lifecycle/runnable.ts";
import type { Message } from "../mailbox/mailbox.ts";
import type { RunConfig } from "./_run_config.ts";
import { ENGINE_PAUSE_MS } from "./_settling_calls.ts";

/** What a receive of a run brought. */
export interface ReceivedMessages<T, R> {
  readonly messages: readonly Message<T, R>[];
  /** The ids of messages that were cancelled during the receive. Some of the messages may have them. */
  readonly cancelled: readonly string[];
}

/** What a {@linkcode RunReceiver} needs of its run. */
export interface ReceivingRun {
  readonly stopping: AbortSignal;
  /** True while no handler runs: the heartbeat may rest as long as the receive waits. */
  isIdle(): boolean;
  /** Called with the id of each message that `cancel` of the mailbox deleted in flight, in any process. */
  onCancelled(id: string): void;
}

/**
 * Receives the messages of a run, one call at a time. While receives fail, it tries again with pauses, and the
 * loop is not ready.
 */
export class RunReceiver<T, R> {
  readonly #config: RunConfig<T, R>;
  readonly #options: RunOptions;
  readonly #run: ReceivingRun;
  /** The cancelled messages that were reported during a receive: its answer may arrive later. */
  readonly #cancelled = new Set<string>();
  #stopListening: (() => unknown) | undefined;
  /** Ends the running receive. */
  #wait = new AbortController();
  #waitingMs: number | undefined;
  #failures = 0;

  constructor(config: RunConfig<T, R>, options: RunOptions, run: ReceivingRun) {
    this.#config = config;
    this.#options = options;
    this.#run = run;
  }

  /** False while receives fail. */
  get ready(): boolean {
    return this.#failures === 0;
  }

  /** The wait time of the running receive. */
  get waitingMs(): number | undefined {
    return this.#waitingMs;
  }

  /** Listens to cancellations. */
  begin(): void {
    this.#stopListening = this.#config.mailbox.onCancel?.((id) => {
      if (this.#waitingMs !== undefined) this.#cancelled.add(id);
      this.#run.onCancelled(id);
    });
  }

  end(): void {
    this.#stopListening?.();
  }

  /** Ends a receive that waits for messages. */
  endWait(): void {
    this.#wait.abort();
  }

  /**
   * Receives at most `maxMessages`. Returns undefined when the receive failed, or when the first one after
   * a failure found nothing: neither counts as an iteration. Never rejects.
   */
  async receive(maxMessages: number): Promise<ReceivedMessages<T, R> | undefined> {
    const { heartbeat, mailbox, visibilityTimeoutMs } = this.#config;
    // After a failure do not wait: the answer tells at once that the engine is back.
    const isProbe = this.#failures > 0;
    const waitTimeMs = isProbe || this.#options.untilEmpty ? 0 : this.#config.waitTimeMs;
    if (this.#wait.signal.aborted) this.#wait = new AbortController();
    const { signal } = this.#wait;
    this.#waitingMs = waitTimeMs;
    if (this.#run.isIdle()) heartbeat.rest(waitTimeMs);
    try {
      const messages = await mailbox.receive({
        maxMessages,
        visibilityTimeoutMs,
        waitTimeMs,
        signal,
      });
      this.#failures = 0;
      if (isProbe && messages.length === 0) return undefined;
      return { messages, cancelled: this.#cancelled.size === 0 ? [] : [...this.#cancelled] };
    } catch (error) {
      await this.#pauseAfter(error);
      return undefined;
    } finally {
      this.#waitingMs = undefined;
      this.#cancelled.clear();
      heartbeat.beat();
    }
  }

  /** Logs the failures number 1, 2, 4, 8 and so on. */
  async #pauseAfter(error: unknown): Promise<void> {
    const { clock, log, mailbox, random } = this.#config;
    const failures = ++this.#failures;
    if (Number.isInteger(Math.log2(failures))) {
      log.warn("receive failed; trying again", { mailbox: mailbox.name, failures, error });
    }
    const pauseMs = backoffMs(failures, ENGINE_PAUSE_MS.min, ENGINE_PAUSE_MS.max, random);
    await clock.sleep(pauseMs, { signal: this.#run.stopping }).catch(() => {
      // A stop began: there is nothing more to receive.
    });
  }
}
