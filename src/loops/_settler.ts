import { backoffMs } from "../_backoff.ts";
import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import { isMailboxError } from "../mailbox/errors.ts";
import type { Mailbox, Message } from "../mailbox/mailbox.ts";

/** How often an engine call is tried before the message is left to its lease. */
const ATTEMPTS = 5;

/** The longest pauses between two attempts. */
const PAUSE_MS = { min: 100, max: 2_000 } as const;

/**
 * Acknowledges and releases for a loop. What comes while a call is under way travels together in the
 * next one. A call that fails is tried again, because the work is done and must not be done twice; a
 * stale receipt is not, because somebody else has the message now.
 */
export class Settler<T, R, W extends { readonly message: Message<T, R> }> {
  readonly #mailbox: Mailbox<T, R>;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #done: (work: W, settled: boolean) => void;
  #works: W[] = [];
  #flushing = false;

  /** `done` is told of each piece of work whether its message could be removed. */
  constructor(
    mailbox: Mailbox<T, R>,
    clock: Clock,
    log: Log,
    done: (work: W, settled: boolean) => void,
  ) {
    this.#mailbox = mailbox;
    this.#clock = clock;
    this.#log = log;
    this.#done = done;
  }

  /** Removes the message of this work. */
  acknowledge(work: W): void {
    this.#works.push(work);
    if (this.#flushing) return;
    this.#flushing = true;
    // After this turn's promises, so that all that has ended by now travels together.
    queueMicrotask(() => this.#flush());
  }

  /** Gives messages back, all in one call where the engine can; returns how many that worked for. */
  async release(messages: readonly Message<T, R>[]): Promise<number> {
    const settled = this.#mailbox.releaseMany === undefined
      ? await Promise.all(
        messages.map((message) => this.attempt("release", () => message.release())),
      )
      : await this.#many("release", messages, () => this.#mailbox.releaseMany!(messages));
    return settled.filter((done) => done).length;
  }

  /** Tries one call until it works, the receipt is stale, or it is enough. Never rejects. */
  async attempt(what: string, call: () => Promise<void>): Promise<boolean> {
    const [settled = false] = await this.#many(what, [], async () => {
      await call();
      return [true];
    });
    return settled;
  }

  async #flush(): Promise<void> {
    while (this.#works.length > 0) {
      const works = this.#works;
      this.#works = [];
      const settled = await this.#acknowledgeAll(works.map(({ message }) => message));
      for (const [i, work] of works.entries()) this.#done(work, settled[i] ?? false);
    }
    this.#flushing = false;
  }

  #acknowledgeAll(messages: readonly Message<T, R>[]): Promise<readonly boolean[]> {
    if (this.#mailbox.acknowledgeMany !== undefined) {
      return this.#many("acknowledge", messages, () => this.#mailbox.acknowledgeMany!(messages));
    }
    return Promise.all(messages.map((m) => this.attempt("acknowledge", () => m.acknowledge())));
  }

  async #many(
    what: string,
    messages: readonly Message<T, R>[],
    call: () => Promise<readonly boolean[]>,
  ): Promise<readonly boolean[]> {
    for (let attempt = 1;; attempt++) {
      try {
        return await call();
      } catch (error) {
        const stale = isMailboxError(error, "ReceiptHandleExpiredError");
        const last = stale || attempt === ATTEMPTS;
        const next = last ? "its lease decides" : "trying again";
        const ids = messages.map(({ id }) => id);
        this.#log.warn(`could not ${what} in "${this.#mailbox.name}"; ${next}`, { error, ids });
        if (last) return [];
        await this.#clock.sleep(backoffMs(attempt, PAUSE_MS.min, PAUSE_MS.max));
      }
    }
  }
}
