import { backoffMs } from "../_backoff.ts";
import type { Clock } from "../clock.ts";
import { errorText, RetryLaterError } from "../errors.ts";
import type { Log } from "../log.ts";
import { checkOpen } from "../mailbox/envelope.ts";
import { isMailboxError, type MailboxErrorName } from "../mailbox/errors.ts";
import type { DeadLetterReason, Message, ReplyMailbox } from "../mailbox/mailbox.ts";
import type { Random } from "../random.ts";
import { DeadLetterError } from "./_dead_letter_error.ts";
import { progressOf, type Remembered, SavedAnswers } from "./_saved_answers.ts";
import type { HandlerContext } from "./handler.ts";

export type { Remembered } from "./_saved_answers.ts";

/** Options of {@linkcode Answering}. */
export interface AnsweringOptions<R> {
  readonly clock: Clock;
  readonly log: Log;
  readonly random?: Random | undefined;
  /** Returns the name of a result for logs, as in `request 7`. */
  readonly nameOf: (result: R) => string;
  /** Returns the answer to send when the result cannot be sent, for example because it is too large. */
  readonly instead: (result: R, error: unknown) => R;
  /** The mailbox for all answers. @default {each message's own reply address} */
  readonly to?: ReplyMailbox<R> | undefined;
  /**
   * What to do about a message without a reply address, which is dead-lettered before the work.
   *
   * @default {the work is done, and its result is not sent}
   */
  readonly noAddress?: string;
}

/** How often to send an answer before the message is nacked. */
const REPLY_ATTEMPTS = 3;
const REPLY_PAUSE_MS = { min: 50, max: 500 } as const;
/** The pause before the next delivery of a nacked message. */
const UNSENT_PAUSE_MS = { min: 1_000, max: 60_000 } as const;

/** After this many deliveries without an open reply mailbox the message is dead-lettered with its answer. */
const MOST_UNAVAILABLE = 10;

/** The reason of a dead letter whose answer has no reply mailbox. A redrive sends the saved answer. */
const REPLY_UNAVAILABLE = "reply_unavailable";

const GONE: readonly MailboxErrorName[] = ["ReplyNotAvailableError", "MailboxClosedError"];
const UNSENDABLE: readonly MailboxErrorName[] = ["SerializationError", "InvalidParameterError"];

/**
 * Answers messages, and does the work for an answer once. An answer that cannot be sent is saved as the
 * checkpoint of its message, and the next delivery only sends it. When both mailboxes are unreachable,
 * such as on one server that restarts, the answer is kept in memory.
 *
 * ```text
 * reply mailbox known? ─▶ work ─▶ send, three times if need be ─▶ done
 *   │                               └── saved, the message is retried later ─▶ send …
 *   └── no ─▶ dead-lettered                    └── no reply mailbox, ten times ─▶ dead-lettered
 * failed for good ─▶ saved ─▶ send ─▶ dead-lettered
 * ```
 *
 * No answer is acknowledged away: a message without an open reply mailbox is dead-lettered before the work
 * or with its answer, as `reply_unavailable`.
 *
 * A failure is saved as a checkpoint before it is sent. When the message could not be dead-lettered and is
 * delivered again, on any machine, it fails again: after an error no requester gets an output.
 */
export class Answering<R> {
  readonly #options: AnsweringOptions<R>;
  readonly #answers = new SavedAnswers<R>();

  constructor(options: AnsweringOptions<R>) {
    this.#options = options;
  }

  /** Does the work and sends the answer. Throws when the message must be delivered again or dead-lettered. */
  async serve<T>(
    message: Message<T, R>,
    context: HandlerContext,
    work: (remembered: Remembered<R>) => Promise<R>,
  ): Promise<void> {
    const remembered = this.#answers.recall(message);
    const { unsent, refused, unavailable: _, ...before } = remembered;
    let result = refused?.result ?? unsent?.result;
    if (result === undefined) {
      await this.#checkAddress(message, remembered);
      result = await work(before);
    }
    await context.endLease();
    const error = await this.#send(message, result);
    const isHopeless = refused !== undefined && (is(error, GONE) || is(error, UNSENDABLE));
    if (error !== undefined && !isHopeless) {
      throw await this.#unsent(message, remembered, result, error);
    }
    if (refused === undefined) return;
    try {
      await message.deadLetter(refused.reason);
    } catch (error) {
      throw this.#later(message, "message not dead-lettered", error, 1);
    }
  }

  /**
   * Answers a message that is about to be dead-lettered. Rejects, without an answer, when the failure cannot
   * be saved as a checkpoint: the next delivery then decides.
   */
  async refuse<T>(message: Message<T, R>, result: R, reason: DeadLetterReason): Promise<void> {
    if (reason.reason === REPLY_UNAVAILABLE) return;
    const { enqueuedAt, deliveryCount, replyTo } = message;
    const remembered = this.#answers.recall(message);
    const refused = remembered.refused ?? { result, reason, enqueuedAt, deliveryCount };
    const isTold = (this.#options.to ?? replyTo) !== undefined;
    if (isTold && remembered.refused === undefined) {
      try {
        await this.#insist(() => message.saveCheckpoint({ ...remembered, refused }));
      } catch (error) {
        // SQS without a store has no checkpoints: keep the answer in memory.
        if (!isMailboxError(error, "InvalidParameterError")) throw error;
        this.#answers.keep(message, { refused });
      }
    }
    const unsent = await this.#send(message, refused.result);
    if (unsent !== undefined) throw unsent;
  }

  /** Throws when an answer would find no open mailbox: nothing is paid for in vain. */
  async #checkAddress<T>(message: Message<T, R>, remembered: Remembered<R>): Promise<void> {
    const { to, noAddress } = this.#options;
    if (to === undefined && message.replyTo === undefined) {
      if (noAddress === undefined) return;
      throw this.#unavailable(`Message ${message.id} has no reply address. ${noAddress}`);
    }
    try {
      if (to === undefined) await message.checkReply();
      else checkOpen(to);
    } catch (error) {
      if (isMailboxError(error, "ReplyNotAvailableError")) {
        throw this.#unavailable(errorText(error), error);
      }
      if (is(error, GONE)) throw await this.#putOff(message, remembered, error);
      if (!isMailboxError(error, "MailboxConnectionError")) throw error;
      throw this.#later(message, "reply mailbox not found", error, 1);
    }
  }

  /** Saves an answer that could not be sent. Returns the error that the handler throws. */
  async #unsent<T>(
    message: Message<T, R>,
    remembered: Remembered<R>,
    result: R,
    error: unknown,
  ): Promise<Error> {
    const times = (remembered.unsent?.times ?? 0) + 1;
    const next = { ...remembered, ...progressOf(message), unsent: { result, times } };
    if (is(error, GONE)) return await this.#putOff(message, next, error);
    const { unavailable: _, ...reachable } = next;
    await this.#answers.save(message, reachable);
    if (is(error, UNSENDABLE)) return this.#unavailable(errorText(error), error);
    return this.#later(message, "reply not sent", error, times);
  }

  /** Counts a delivery without an open reply mailbox. The last one dead-letters the message. */
  async #putOff<T>(
    message: Message<T, R>,
    remembered: Remembered<R>,
    error: unknown,
  ): Promise<Error> {
    const unavailable = (remembered.unavailable ?? 0) + 1;
    const saved = await this.#answers.save(message, { ...remembered, unavailable });
    // An answer that is only in memory must not be dead-lettered: it would be lost.
    const isLast = unavailable >= MOST_UNAVAILABLE && (saved || remembered.unsent === undefined);
    if (isLast) return this.#unavailable(errorText(error), error);
    return this.#later(message, "reply not sent", error, unavailable);
  }

  #unavailable(error: string, cause?: unknown): DeadLetterError {
    return new DeadLetterError({ reason: REPLY_UNAVAILABLE, error }, cause);
  }

  #later<T>(
    { id }: Message<T, R>,
    what: string,
    cause: unknown,
    times: number,
  ): RetryLaterError {
    const delayMs = this.#pauseMs(times, UNSENT_PAUSE_MS);
    this.#options.log.warn(`${what}; trying again later`, { id, times, delayMs, error: cause });
    return new RetryLaterError(`Message ${id}: ${what}`, { cause, delayMs });
  }

  /** Sends an answer. Resolves with the error if that failed. */
  async #send<T>(message: Message<T, R>, result: R): Promise<unknown> {
    const { log, nameOf, instead, to } = this.#options;
    if (to === undefined && message.replyTo === undefined) {
      log.debug(`${nameOf(result)} has no reply address: its result is not sent`);
      return undefined;
    }
    let answer = result;
    for (let attempt = 1;; attempt++) {
      try {
        return void await (to === undefined ? message.reply(answer) : to.send(answer));
      } catch (error) {
        if (is(error, UNSENDABLE) && answer === result) {
          answer = instead(result, error);
          continue;
        }
        if (is(error, GONE) || is(error, UNSENDABLE) || attempt >= REPLY_ATTEMPTS) return error;
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

  #pauseMs(attempt: number, { min, max }: { readonly min: number; readonly max: number }): number {
    return backoffMs(attempt, min, max, this.#options.random);
  }

  async #pauseAfter(attempt: number): Promise<void> {
    await this.#options.clock.sleep(this.#pauseMs(attempt, REPLY_PAUSE_MS));
  }
}

function is(error: unknown, names: readonly MailboxErrorName[]): boolean {
  return names.some((name) => isMailboxError(error, name));
}
