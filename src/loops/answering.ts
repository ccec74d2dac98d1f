import { backoffMs } from "../_backoff.ts";
import type { Clock } from "../clock.ts";
import { RetryLaterError } from "../errors.ts";
import type { Log } from "../log.ts";
import { isMailboxError, type MailboxErrorName } from "../mailbox/errors.ts";
import type { DeadLetterReason, Message, ReplyMailbox } from "../mailbox/mailbox.ts";
import type { HandlerContext } from "./handler.ts";

/** What a message remembers between its deliveries. */
export interface Remembered<R> {
  /** What the work itself has saved. */
  readonly progress?: unknown;
  /** The work is done, and only its answer could not be sent. */
  readonly unsent?: Unsent<R>;
  /** The message has failed for good: this is its answer, and it never gets another. */
  readonly refused?: Refused<R>;
}

/** An answer, and how often it could not be sent. */
export interface Unsent<R> {
  readonly result: R;
  readonly times: number;
}

/** An answer that tells of a failure, and why its message is dead-lettered. */
export interface Refused<R> {
  readonly result: R;
  readonly reason: DeadLetterReason;
  /** The delivery that failed. A redriven message is sent anew, and counted anew. */
  readonly enqueuedAt: number;
  readonly deliveryCount: number;
}

/** Options of {@linkcode Answering}. */
export interface AnsweringOptions<R> {
  readonly clock: Clock;
  readonly log: Log;
  /** What the result is about, for logs: `request 7`. */
  readonly nameOf: (result: R) => string;
  /** What is sent where the result itself never can be, as when it is too large. */
  readonly instead: (result: R, error: unknown) => R;
  /** Where all answers go. @default {each message's own reply address} */
  readonly to?: ReplyMailbox<R> | undefined;
}

/** How often an answer is tried before its message is put off. */
const REPLY_ATTEMPTS = 3;
const REPLY_PAUSE_MS = { min: 50, max: 500 } as const;
/** How many answers are remembered here because their messages could not. */
const MOST_KEPT = 1_000;
/** How long a message is put off. */
const UNSENT_PAUSE_MS = { min: 1_000, max: 60_000 } as const;

const GONE: readonly MailboxErrorName[] = ["ReplyNotAvailableError", "MailboxClosedError"];
const UNSENDABLE: readonly MailboxErrorName[] = ["SerializationError", "InvalidParameterError"];

/**
 * Answers messages, and does the work for an answer once: an answer that cannot be sent is remembered
 * with its message, and the next delivery only sends it. Where both mailboxes are away, as on one server
 * that is restarted, it is remembered here.
 *
 * ```text
 * work ─▶ send, three times if need be ─▶ done
 *              └── remembered, the message is put off ─▶ send …
 * failed for good ─▶ remembered ─▶ send ─▶ dead-lettered
 * ```
 *
 * A failure is remembered with the message before it is told. When the message could not be dead-lettered
 * and comes again, on whichever machine, it is refused again: after an error no requester gets an output.
 */
export class Answering<R> {
  readonly #options: AnsweringOptions<R>;
  readonly #kept = new Map<string, Pick<Remembered<R>, "unsent" | "refused">>();

  constructor(options: AnsweringOptions<R>) {
    this.#options = options;
  }

  /** Has the work done and answered. Throws when the message is to come again. */
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
      await message.bury(refused.reason);
    } catch (error) {
      throw this.#later(`Message ${message.id} could not be dead-lettered`, error, times);
    }
  }

  /**
   * Answers a message that is about to be dead-lettered. Rejects when that cannot be remembered with the
   * message, which is not answered then: should it come again, its next delivery decides.
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
        // SQS without a store keeps no checkpoints: this process remembers it.
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

  /** What is known of a message from its earlier deliveries, here or elsewhere. */
  #recall<T>(message: Message<T, R>): Remembered<R> {
    const key = keyOf(message);
    const { refused, ...remembered } = { ...readRemembered(message), ...this.#kept.get(key) };
    this.#kept.delete(key);
    const isOfThis = refused !== undefined && refused.enqueuedAt === message.enqueuedAt &&
      refused.deliveryCount < message.deliveryCount;
    return isOfThis ? { ...remembered, refused } : remembered;
  }

  /** Sends an answer. Resolves with what went wrong, if that may pass. */
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

  /** Tries a call as often as an answer, while the engine is away. */
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

/** What earlier deliveries have saved; nothing when it was saved by something else, or cannot be read. */
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
