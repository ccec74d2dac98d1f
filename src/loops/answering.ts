import { backoffMs } from "../_backoff.ts";
import type { Clock } from "../clock.ts";
import { RetryLaterError } from "../errors.ts";
import type { Log } from "../log.ts";
import { isMailboxError, type MailboxErrorName } from "../mailbox/errors.ts";
import type { Message, ReplyMailbox } from "../mailbox/mailbox.ts";
import type { HandlerContext } from "./handler.ts";

/** What a message remembers between its deliveries. */
export interface Remembered<R> {
  /** What the work itself has saved. */
  readonly progress?: unknown;
  /** The work is done, and only its answer could not be sent. */
  readonly unsent?: Unsent<R>;
}

/** An answer, and how often it could not be sent. */
export interface Unsent<R> {
  readonly result: R;
  readonly times: number;
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
 * ```
 */
export class Answering<R> {
  readonly #options: AnsweringOptions<R>;
  readonly #kept = new Map<string, Unsent<R>>();

  constructor(options: AnsweringOptions<R>) {
    this.#options = options;
  }

  /** Has the work done and answered. Throws when the message is to come again. */
  async serve<T>(
    message: Message<T, R>,
    context: HandlerContext,
    work: (remembered: Remembered<R>) => Promise<R>,
  ): Promise<void> {
    const remembered = (message.checkpoint ?? {}) as Remembered<R>;
    const known = remembered.unsent ?? this.#recall(message);
    const result = known?.result ?? await work(remembered);
    await context.endLease();
    const error = await this.send(message, result);
    if (error === undefined) return;
    const unsent = { result, times: (known?.times ?? 0) + 1 };
    await message.saveCheckpoint({ ...remembered, unsent }).catch(() =>
      this.#keep(message, unsent)
    );
    throw new RetryLaterError(`The answer to ${this.#options.nameOf(result)} could not be sent`, {
      cause: error,
      delayMs: backoffMs(unsent.times, UNSENT_PAUSE_MS.min, UNSENT_PAUSE_MS.max),
    });
  }

  #keep<T>(message: Message<T, R>, unsent: Unsent<R>): void {
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size < MOST_KEPT) break;
      this.#kept.delete(oldest);
    }
    this.#kept.set(keyOf(message), unsent);
  }

  /** What was kept for a message, which is not kept any longer. */
  #recall<T>(message: Message<T, R>): Unsent<R> | undefined {
    const key = keyOf(message);
    const unsent = this.#kept.get(key);
    this.#kept.delete(key);
    return unsent;
  }

  /** Sends an answer. Resolves with what went wrong, if that may pass. */
  async send<T>(message: Message<T, R>, result: R): Promise<unknown> {
    const { clock, log, nameOf, instead, to } = this.#options;
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
          log.error(`nobody can be told the result of ${nameOf(result)}`, { error });
          return undefined;
        }
        if (is(error, UNSENDABLE)) {
          answer = instead(result, error);
          continue;
        }
        if (attempt >= REPLY_ATTEMPTS) return error;
        await clock.sleep(backoffMs(attempt, REPLY_PAUSE_MS.min, REPLY_PAUSE_MS.max));
      }
    }
  }
}

function is(error: unknown, names: readonly MailboxErrorName[]): boolean {
  return names.some((name) => isMailboxError(error, name));
}

/** An id may be that of another message later. */
function keyOf<T, R>({ id, enqueuedAt }: Message<T, R>): string {
  return `${enqueuedAt} ${id}`;
}
