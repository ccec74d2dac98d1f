import { backoffMs } from "../_backoff.ts";
import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import { isMailboxError } from "../mailbox/errors.ts";
import type { Mailbox, Message } from "../mailbox/mailbox.ts";
import type { Decision } from "./_handle.ts";
import type { Outcome } from "./_ledger.ts";

/** The least number of attempts at an engine call before the message is left to its lease. */
const ATTEMPTS = 5;

/** The longest pauses between two attempts. */
const PAUSE_MS = { min: 100, max: 1_000 } as const;

/** How long to wait for an engine that is unavailable. */
export interface Patience {
  /** The visibility timeout: later there is nothing to settle. */
  readonly leaseMs: number;
  /** Aborts shortly before the deadline of a stop. */
  readonly signal: AbortSignal;
}

/**
 * Settles messages for a loop. Acknowledgements that are requested during a call share the next call. A
 * failed call is tried again. An acknowledgement is tried again for as long as the lease lasts while the
 * engine is unavailable, because the work is done and must not be repeated. An expired receipt handle
 * ends the attempts: the message belongs to another worker.
 */
export class Settler<T, R, W extends { readonly message: Message<T, R> }> {
  readonly #mailbox: Mailbox<T, R>;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #patience: Patience;
  readonly #done: (work: W, outcome: Outcome) => void;
  #works: W[] = [];
  #flushing = false;

  /** Calls `done` for each message passed to `acknowledge`, with the outcome. */
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

  /** Acknowledges the message soon, together with others. */
  acknowledge(work: W): void {
    this.#works.push(work);
    if (this.#flushing) return;
    this.#flushing = true;
    // After the promises of this turn, so that all handlers that ended by now share one call.
    queueMicrotask(() => this.#flush());
  }

  /** Releases messages, in one call where the engine can. Returns the number released. */
  async release(messages: readonly Message<T, R>[]): Promise<number> {
    const settled = this.#mailbox.releaseMany === undefined
      ? await Promise.all(
        messages.map((message) => this.#attempt("release", () => message.release())),
      )
      : await this.#many("release", messages, () => this.#mailbox.releaseMany!(messages));
    return settled.filter((done) => done).length;
  }

  /** Releases, nacks or dead-letters a message, and returns the outcome. Never rejects. */
  async settle(
    message: Message<T, R>,
    decision: Exclude<Decision, { kind: "acknowledge" }>,
  ): Promise<Outcome> {
    const lost = () => message.settlement ?? "lost"; // another call may have settled it meanwhile
    switch (decision.kind) {
      case "release":
        return await this.release([message]) > 0 ? "released" : lost();
      case "nack":
        return await this.#attempt(decision.kind, () => message.nack(decision.options))
          ? "nacked"
          : lost();
      case "deadLetter": {
        const { reason } = decision;
        if (!await this.#attempt("dead-letter", () => message.deadLetter(reason))) return lost();
        this.#log.error(`message ${message.id} dead-lettered: ${reason.reason}`, { ...reason });
        return "deadLettered";
      }
    }
  }

  /** Tries a call until it succeeds, the receipt handle has expired, or the attempts end. Never rejects. */
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
    // A release or nack that fails happens anyway when the lease expires: a stop need not wait.
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

  /** Returns false when no time is left for another attempt. */
  async #pauseAfter(attempt: number): Promise<boolean> {
    const { signal } = this.#patience;
    const ms = backoffMs(attempt, PAUSE_MS.min, PAUSE_MS.max);
    const pause = attempt < ATTEMPTS ? this.#clock.sleep(ms) : this.#clock.sleep(ms, { signal });
    return await pause.then(() => true, () => false);
  }
}
