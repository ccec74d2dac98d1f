import type { DeadLetterReason, Message } from "../mailbox/mailbox.ts";

/** The checkpoint of a message between its deliveries. Finished steps are saved besides it. */
export interface Remembered<R> {
  /** The checkpoint of the work itself. */
  readonly progress?: unknown;
  /** The result of finished work whose answer could not be sent. */
  readonly unsent?: Unsent<R>;
  /** The final answer of a message that has failed for good. */
  readonly refused?: Refused<R>;
  /** How many deliveries in a row found no open reply mailbox. */
  readonly unavailable?: number;
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

/** The most answers kept in memory because no checkpoint could be saved. */
const MOST_KEPT = 1_000;

/** Saves answers as checkpoints of their messages, and keeps in memory those that cannot be saved. */
export class SavedAnswers<R> {
  readonly #kept = new Map<string, Omit<Remembered<R>, "progress">>();

  /** Returns what earlier deliveries have saved, here or on another machine. */
  recall<T>(message: Message<T, R>): Remembered<R> {
    const key = keyOf(message);
    const { refused, ...remembered } = { ...readRemembered(message), ...this.#kept.get(key) };
    this.#kept.delete(key);
    const isOfThis = refused !== undefined && refused.enqueuedAt === message.enqueuedAt &&
      refused.deliveryCount < message.deliveryCount;
    return isOfThis ? { ...remembered, refused } : remembered;
  }

  /** Saves a checkpoint, or keeps it in memory. Returns whether it was saved. */
  async save<T>(message: Message<T, R>, remembered: Remembered<R>): Promise<boolean> {
    try {
      await message.saveCheckpoint(remembered);
      return true;
    } catch {
      this.keep(message, remembered);
      return false;
    }
  }

  /** Keeps an answer in memory, in place of the oldest one if there are too many. */
  keep<T>(message: Message<T, R>, { progress: _, ...remembered }: Remembered<R>): void {
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size < MOST_KEPT) break;
      this.#kept.delete(oldest);
    }
    this.#kept.set(keyOf(message), remembered);
  }
}

/** Returns what the work has saved by now. */
export function progressOf<T, R>(message: Message<T, R>): Pick<Remembered<R>, "progress"> {
  const { progress } = readRemembered(message);
  return progress === undefined ? {} : { progress };
}

/** Returns the saved checkpoint; an empty one when it has another format or cannot be read. */
function readRemembered<T, R>(message: Message<T, R>): Remembered<R> {
  try {
    const { progress, unsent, refused, unavailable } = Object(message.checkpoint) as Remembered<R>;
    return {
      ...(progress !== undefined && { progress }),
      ...(isCount(unsent?.times) && { unsent: unsent! }),
      ...(isRefused(refused) && { refused }),
      ...(isCount(unavailable) && { unavailable }),
    };
  } catch {
    return {};
  }
}

function isRefused<R>(refused: Refused<R> | undefined): refused is Refused<R> {
  return typeof refused?.reason?.reason === "string" && isCount(refused.deliveryCount);
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** An id may be that of another message later. */
function keyOf<T, R>({ id, enqueuedAt }: Message<T, R>): string {
  return `${enqueuedAt} ${id}`;
}
