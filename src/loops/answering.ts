import { backoffMs } from "../_backoff.ts";
import type { Clock } from "../clock.ts";
import { RetryLaterError } from "../errors.ts";
import type { Log } from "../log.ts";
import { isMailboxError, type MailboxErrorName } from "../mailbox/errors.ts";
import type { DeadLetterReason, Message, ReplyMailbox } from "../mailbox/mailbox.ts";
import type { HandlerContext } from "./handler.ts";

/** The checkpoint of a message between its deliveries. */
export interface Remembered<R> {
  /** The checkpoint of the work itself. */
  readonly progress?: unknown;
  /** The result of finished work whose answer could not be sent. */
  readonly unsent?: Unsent<R>;
  /** The final answer of a message that has failed for good. */
  readonly refused?: Refused<R>;
}

/** An answer and the number of failed sends. */
export interface Unsent<R> {
  readonly result: R;
  readonly times: number;
}

/** The answer of a failed message, and why the message is dead-lettered. */
export interface Refused<R> {
  readonly result: R;
  readonly reason: DeadLetterReason;
  /** The delivery that failed. A redriven message is counted from 1 again. */
  readonly enqueuedAt: number;
  readonly deliveryCount: number;
}

/** Options of {@linkcode Answering}. */
export interface AnsweringOptions<R> {
  readonly clock: Clock;
  readonly log: Log;
  /** Returns the name of a result for logs, as in `request 7`. */
  readonly nameOf: (result: R) => string;
  /** Returns the answer to send when the result cannot be sent, for example because it is too large. */
  readonly instead: (result: R, error: unknown) => R;
  /** The mailbox for all answers. @default {each message's own reply address} */
  readonly to?: ReplyMailbox<R> | undefined;
}

/** How often to send an answer before the message is nacked. */
const REPLY_ATTEMPTS = 3;
const REPLY_PAUSE_MS = { min: 50, max: 500 } as const;
/** The most answers kept in memory because no checkpoint could be saved. */
const MOST_KEPT = 1_000;
/** The pause before the next delivery of a nacked message. */
const UNSENT_PAUSE_MS = { min: 1_000, max: 60_000 } as const;

const GONE: readonly MailboxErrorName[] = ["ReplyNotAvailableError", "MailboxClosedError"];
const UNSENDABLE: readonly MailboxErrorName[] = ["SerializationError", "InvalidParameterError"];

/**
 * Answers messages, and does the work for an answer once. An answer that cannot be sent is saved as the
 * checkpoint of its message, and the next delivery only sends it. When both mailboxes are unreachable,
 * such as on one server that restarts, the answer is kept in memory.
 *
 * ```text
 * work ─▶ send, three times if need be ─▶ done
 *              └── remembered, the message is put off ─▶ send …
 * failed for good ─▶ remembered ─▶ send ─▶ dead-lettered
 * ```
 *
 * A failure is saved as a checkpoint before it is sent. When the message could not be dead-lettered and is
 * delivered again, on any machine, it fails again: after an error no requester gets an output.
 */
export class Answering<R> {
  readonly #options: AnsweringOptions<R>;
  readonly #kept = new Map<string, Pick<Remembered<R>, "unsent" | "refused">>();

  constructor(options: AnsweringOptions<R>) {
    this.#options = options;
  }

  /** Does the work and sends the answer. Throws when the message must be delivered again. */
  async serve<T>(
    message: Message<T, R>,
    context: HandlerContext,
    work: (remembered: Remembered<R>) => Promise<R>,
  ): Promise<void> {
    const remembered = this.#recall(message);
    const { unsent: known, refused } = remembered;
    const result = refused?.result ?? known?.result ?? await work(remembered);
    await context.endLease();
    const times = (known?.times ?? 0) + 1;
    const error = await this.send(message, result);
    if (error !== undefined) {
      const unsent = { result, times };
      await message.saveCheckpoint({ ...remembered, unsent }).catch(() =>
        this.#keep(message, { ...remembered, unsent })
      );
      const what = `The answer to ${this.#options.nameOf(result)} could not be sent`;
      throw this.#later(what, error, times);
    }
    if (refused === undefined) return;
    try {
      await message.deadLetter(refused.reason);
    } catch (error) {
      throw this.#later(`Message ${message.id} could not be dead-lettered`, error, times);
    }
  }

  /**
   * Answers a message that is about to be dead-lettered. Rejects, without an answer, when the failure cannot
   * be saved as a checkpoint: the next delivery then decides.
   */
  async refuse<T>(message: Message<T, R>, result: R, reason: DeadLetterReason): Promise<void> {
    const { enqueuedAt, deliveryCount, replyTo } = message;
    const remembered = this.#recall(message);
    const refused = remembered.refused ?? { result, reason, enqueuedAt, deliveryCount };
    const isTold = (this.#options.to ?? replyTo) !== undefined;
    if (isTold && remembered.refused === undefined) {
      try {
        await this.#insist(() => message.saveCheckpoint({ ...remembered, refused }));
      } catch (error) {
        // SQS without a store has no checkpoints: keep the answer in memory.
        if (!isMailboxError(error, "InvalidParameterError")) throw error;
        this.#keep(message, { refused });
      }
    }
    const unsent = await this.send(message, refused.result);
    if (unsent !== undefined) throw unsent;
  }

  #later(message: string, cause: unknown, times: number): RetryLaterError {
    const delayMs = backoffMs(times, UNSENT_PAUSE_MS.min, UNSENT_PAUSE_MS.max);
    return new RetryLaterError(message, { cause, delayMs });
  }

  #keep<T>(message: Message<T, R>, { unsent, refused }: Remembered<R>): void {
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size < MOST_KEPT) break;
      this.#kept.delete(oldest);
    }
    this.#kept.set(keyOf(message), {
      ...(unsent === undefined ? {} : { unsent }),
      ...(refused === undefined ? {} : { refused }),
    });
  }

  /** Returns what earlier deliveries have saved, here or on another machine. */
  #recall<T>(message: Message<T, R>): Remembered<R> {
    const key = keyOf(message);
    const { refused, ...remembered } = { ...readRemembered(message), ...this.#kept.get(key) };
    this.#kept.delete(key);
    const isOfThis = refused !== undefined && refused.enqueuedAt === message.enqueuedAt &&
      refused.deliveryCount < message.deliveryCount;
    return isOfThis ? { ...remembered, refused } : remembered;
  }

  /** Sends an answer. Resolves with the error if it is temporary. */
  async send<T>(message: Message<T, R>, result: R): Promise<unknown> {
    const { log, nameOf, instead, to } = this.#options;
    if (to === undefined && message.replyTo === undefined) {
      log.warn(`${nameOf(result)} has no reply address: its result is dropped`);
      return undefined;
    }
    let answer = result;
    for (let attempt = 1;; attempt++) {
      try {
        return void await (to === undefined ? message.reply(answer) : to.send(answer));
      } catch (error) {
        const gone = to === undefined && is(error, GONE);
        if (gone || (is(error, UNSENDABLE) && answer !== result)) {
          log.error(`result of ${nameOf(result)} dropped: it cannot be sent`, { error });
          return undefined;
        }
        if (is(error, UNSENDABLE)) {
          answer = instead(result, error);
          continue;
        }
        if (attempt >= REPLY_ATTEMPTS) return error;
        await this.#pauseAfter(attempt);
      }
    }
  }

  /** Retries a call while the engine is unreachable, as often as an answer. */
  async #insist(call: () => Promise<void>): Promise<void> {
    for (let attempt = 1;; attempt++) {
      try {
        return await call();
      } catch (error) {
        const isAway = isMailboxError(error, "MailboxConnectionError");
        if (!isAway || attempt >= REPLY_ATTEMPTS) throw error;
        await this.#pauseAfter(attempt);
      }
    }
  }

  async #pauseAfter(attempt: number): Promise<void> {
    await this.#options.clock.sleep(backoffMs(attempt, REPLY_PAUSE_MS.min, REPLY_PAUSE_MS.max));
  }
}

/** Returns the saved checkpoint; an empty one when it has another format or cannot be read. */
function readRemembered<T, R>(message: Message<T, R>): Remembered<R> {
  try {
    const { checkpoint } = message;
    return typeof checkpoint === "object" && checkpoint !== null ? checkpoint : {};
  } catch {
    return {};
  }
}

function is(error: unknown, names: readonly MailboxErrorName[]): boolean {
  return names.some((name) => isMailboxError(error, name));
}

/** An id may be that of another message later. */
function keyOf<T, R>({ id, enqueuedAt }: Message<T, R>): string {
  return `${enqueuedAt} ${id}`;
}
