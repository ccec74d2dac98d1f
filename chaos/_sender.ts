// Sends the messages of a run.

import { setTimeout as sleep } from "node:timers/promises";
import type { Mailbox, SendOptions } from "../mod.ts";

/** The body of a message. */
export interface Job {
  /** How long its handler takes. */
  readonly workMs: number;
  /** True for a message whose handler ends its process. */
  readonly poison?: boolean;
}

/** Longer than the sender tries to send one message: no message is stored twice. */
const DEDUP_MS = 300_000;

/** Returns the key of message number n, where messages have keys. */
export function keyOf(n: number, keys: number): string {
  return `key-${n % keys}`;
}

/** How many messages a worker handles at a time. */
export const CONCURRENCY = 10;

/** Options of {@linkcode Sender}. */
export interface SenderOptions {
  readonly messages: number;
  /** The time over which the messages are spread; 0 sends as fast as possible. */
  readonly overMs: number;
  /** How long the sender tries to send one message. */
  readonly limitMs: number;
  /** The sender waits while this many messages are not completed. */
  readonly maxBacklog: number;
  /** Returns how long the handler of message number n takes. */
  readonly workMs: (n: number) => number;
  /** The ids of the messages whose handlers end their processes. @default {none} */
  readonly poison?: ReadonlySet<string>;
  /** The number of keys; 0 for messages without keys. The messages of a key are sent one after the other. */
  readonly keys: number;
  /** Called with the id of each confirmed message. */
  readonly onSent: (id: string) => void;
}

const SENDERS = 20;
const PAUSE_MS = 20;

/** Sends in bursts, so that workers have more messages than they can handle at a time. */
const BURST_MS = 500;

/**
 * Sends messages with the ids 1 to n. It repeats each send with the same id until the engine confirms
 * it, so that every sent message is stored once.
 */
export class Sender {
  /** The number of confirmed messages. */
  sent = 0;
  readonly #mailbox: Mailbox<Job>;
  readonly #options: SenderOptions;
  readonly #completed: () => number;
  /** The last send of each key. */
  readonly #lines = new Map<string, Promise<void>>();
  readonly #startedAt = performance.now();
  #next = 1;
  #stopped = false;

  /** `completed` returns the number of messages that workers have completed. */
  constructor(mailbox: Mailbox<Job>, options: SenderOptions, completed: () => number) {
    this.#mailbox = mailbox;
    this.#options = options;
    this.#completed = completed;
  }

  /** Sends all messages, or until {@linkcode stop}. */
  async run(): Promise<void> {
    await Promise.all(Array.from({ length: SENDERS }, () => this.#sendSome()));
  }

  stop(): void {
    this.#stopped = true;
  }

  async #sendSome(): Promise<void> {
    const { messages, maxBacklog } = this.#options;
    while (!this.#stopped && this.#next <= messages) {
      const backlog = this.#next - 1 - this.#completed();
      if (this.#next > this.#due || backlog >= maxBacklog) {
        await sleep(PAUSE_MS);
        continue;
      }
      await this.#sendInOrder(this.#next++);
    }
  }

  /** Sends a message after the last one of its key. */
  async #sendInOrder(n: number): Promise<void> {
    const { keys, workMs, poison } = this.#options;
    const job = { workMs: workMs(n), ...(poison?.has(`${n}`) && { poison: true }) };
    if (keys === 0) return await this.#sendUntilConfirmed(job, { id: `${n}` });
    const key = keyOf(n, keys);
    const options = { id: `${n}`, key, dedupMs: DEDUP_MS };
    const before = this.#lines.get(key) ?? Promise.resolve();
    const sending = before.then(() => this.#sendUntilConfirmed(job, options));
    this.#lines.set(key, sending);
    await sending;
  }

  async #sendUntilConfirmed(job: Job, options: SendOptions & { id: string }): Promise<void> {
    const endsAt = performance.now() + this.#options.limitMs;
    for (;;) {
      try {
        await this.#mailbox.send(job, options);
        this.sent++;
        return this.#options.onSent(options.id);
      } catch (error) {
        if (performance.now() > endsAt) throw error;
        await sleep(PAUSE_MS * (1 + Math.random()));
      }
    }
  }

  get #due(): number {
    const { messages, overMs } = this.#options;
    const bursts = Math.ceil((performance.now() - this.#startedAt) / BURST_MS);
    return overMs === 0 ? messages : messages * bursts * BURST_MS / overMs;
  }
}
