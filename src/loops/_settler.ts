import { backoffMs } from "../_backoff.ts";
import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import { isMailboxError } from "../mailbox/errors.ts";
import type { Mailbox, Message } from "../mailbox/mailbox.ts";
import type { Outcome } from "./_ledger.ts";
import type { Verdict } from "./_verdict.ts";

/** How often an engine call is tried at least before the message is left to its lease. */
const ATTEMPTS = 5;

/** The longest pauses between two attempts. */
const PAUSE_MS = { min: 100, max: 1_000 } as const;

/** How long an engine that is away is waited for. */
export interface Patience {
  /** After this the leases have passed, and there is nothing to settle any more. */
  readonly leaseMs: number;
  /** Aborted when the time of a stop is nearly up. */
  readonly signal: AbortSignal;
}

/**
 * Settles messages for a loop. Acknowledgements that are asked for while a call is under way share the
 * next one. A call that fails is tried again; an acknowledgement as long as the lease lasts where the
 * engine is away, because the work is done and must not be done twice. A stale receipt is not tried
 * again: the message belongs to another worker now.
 */
export class Settler<T, R, W extends { readonly message: Message<T, R> }> {
  readonly #mailbox: Mailbox<T, R>;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #patience: Patience;
  readonly #done: (work: W, outcome: Outcome) => void;
  #works: W[] = [];
  #flushing = false;

  /** `done` is called for each acknowledged piece of work, with what came of it. */
  constructor(
    mailbox: Mailbox<T, R>,
    clock: Clock,
    log: Log,
    patience: Patience,
    done: (work: W, outcome: Outcome) => void,
  ) {
    this.#mailbox = mailbox;
    this.#clock = clock;
    this.#log = log;
    this.#patience = patience;
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
        messages.map((message) => this.#attempt("release", () => message.release())),
      )
      : await this.#many("release", messages, () => this.#mailbox.releaseMany!(messages));
    return settled.filter((done) => done).length;
  }

  /** Settles a message that is not done, and returns what came of it. Never rejects. */
  async giveBack(
    message: Message<T, R>,
    verdict: Exclude<Verdict, { kind: "acknowledge" }>,
  ): Promise<Outcome> {
    const lost = () => message.settlement ?? "lost"; // another call may have settled it meanwhile
    switch (verdict.kind) {
      case "release":
        return await this.release([message]) > 0 ? "released" : lost();
      case "nack":
        return await this.#attempt(verdict.kind, () => message.nack(verdict.options))
          ? "nacked"
          : lost();
      case "bury": {
        const { reason } = verdict;
        if (!await this.#attempt("dead-letter", () => message.bury(reason))) return lost();
        this.#log.error(`message ${message.id} dead-lettered: ${reason.reason}`, { ...reason });
        return "deadLettered";
      }
    }
  }

  /** Tries one call until it works, the receipt is stale, or it is enough. Never rejects. */
  async #attempt(what: string, call: () => Promise<void>): Promise<boolean> {
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
      for (const [i, work] of works.entries()) {
        this.#done(work, settled[i] ? "acknowledged" : work.message.settlement ?? "lost");
      }
    }
    this.#flushing = false;
  }

  #acknowledgeAll(messages: readonly Message<T, R>[]): Promise<readonly boolean[]> {
    if (this.#mailbox.acknowledgeMany !== undefined) {
      return this.#many("acknowledge", messages, () => this.#mailbox.acknowledgeMany!(messages));
    }
    return Promise.all(messages.map((m) => this.#attempt("acknowledge", () => m.acknowledge())));
  }

  async #many(
    what: string,
    messages: readonly Message<T, R>[],
    call: () => Promise<readonly boolean[]>,
  ): Promise<readonly boolean[]> {
    const { leaseMs, signal } = this.#patience;
    // What was only to go back goes back by its lease: a stop need not wait for that.
    const endsAt = what === "acknowledge" ? this.#clock.monotonic() + leaseMs : 0;
    for (let attempt = 1;; attempt++) {
      try {
        return await call();
      } catch (error) {
        const away = isMailboxError(error, "MailboxConnectionError") && !signal.aborted &&
          this.#clock.monotonic() < endsAt;
        if (isMailboxError(error, "MessageFinalizedError")) return [];
        const stale = isMailboxError(error, "ReceiptHandleExpiredError");
        const closed = isMailboxError(error, "MailboxClosedError");
        const last = stale || closed || attempt >= ATTEMPTS && !away;
        const next = last ? "it reappears when its visibility timeout passes" : "trying again";
        const ids = messages.map(({ id }) => id);
        if (last || attempt <= ATTEMPTS) {
          this.#log.warn(`could not ${what} in "${this.#mailbox.name}"; ${next}`, { error, ids });
        }
        if (last || !await this.#pauseAfter(attempt)) return [];
      }
    }
  }

  /** False when there is no time for another attempt. */
  async #pauseAfter(attempt: number): Promise<boolean> {
    const { signal } = this.#patience;
    const ms = backoffMs(attempt, PAUSE_MS.min, PAUSE_MS.max);
    const pause = attempt < ATTEMPTS ? this.#clock.sleep(ms) : this.#clock.sleep(ms, { signal });
    return await pause.then(() => true, () => false);
  }
}
