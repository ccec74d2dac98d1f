import type { Cancel, Clock } from "../../clock.ts";

const PAYLOAD = /^(\S*) (\S*)(?: (\d+)\/(\d+) (.*))?$/s;

/** The most parts of the id of a cancelled message. */
const MAX_PARTS = 1_000;

/** A notification of the channel. */
export interface Notification {
  readonly sender: string;
  readonly queue: string;
  /** A part of the id of a cancelled message, from 1. */
  readonly part?: { readonly index: number; readonly count: number; readonly text: string };
}

/** Reads a payload. Any session may notify the channel: another payload wakes at most. */
export function notificationOf(payload: string): Notification {
  const [, sender = "", queue = "", part, parts, text = ""] = PAYLOAD.exec(payload) ?? [];
  const [index, count] = [Number(part), Number(parts)];
  if (!(index >= 1 && index <= count && count <= MAX_PARTS)) return { sender, queue };
  return { sender, queue, part: { index, count, text } };
}

/** Minimum time between notifications, because each one delays the commits of all sessions. */
const NOTIFY_INTERVAL_MS = 10;

/** Notifies other processes of new messages: the first time at once, then in batches. */
export class Notifier {
  readonly #clock: Clock;
  readonly #send: (queues: readonly string[]) => Promise<unknown>;
  readonly #queues = new Set<string>();
  #cancel: Cancel | undefined;
  #sending: Promise<void> | undefined;
  #sentAt = -Infinity;

  constructor(clock: Clock, send: (queues: readonly string[]) => Promise<unknown>) {
    this.#clock = clock;
    this.#send = send;
  }

  /** Notifies that messages of this queue may have become visible. */
  add(queue: string): void {
    this.#queues.add(queue);
    if (this.#cancel !== undefined || this.#sending !== undefined) return;
    const waitMs = this.#sentAt + NOTIFY_INTERVAL_MS - this.#clock.monotonic();
    if (waitMs <= 0) this.#flush();
    else this.#cancel = this.#clock.schedule(waitMs, () => this.#flush());
  }

  /** Sends the remaining notifications. */
  async close(): Promise<void> {
    while (this.#cancel !== undefined || this.#sending !== undefined) {
      if (this.#cancel !== undefined) this.#flush();
      await this.#sending;
    }
  }

  #flush(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    this.#sending = this.#sendAll();
  }

  async #sendAll(): Promise<void> {
    const queues = [...this.#queues];
    this.#queues.clear();
    this.#sentAt = this.#clock.monotonic();
    try {
      await this.#send(queues);
    } catch {
      // Receivers in other processes also poll.
    }
    this.#sending = undefined;
    for (const queue of this.#queues) this.add(queue);
  }
}
