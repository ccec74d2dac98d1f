// Sends the messages of a run.

import { setTimeout as sleep } from "node:timers/promises";
import type { Mailbox } from "../mod.ts";

/** The body of a message. */
export interface Job {
  /** How long its handler takes. */
  readonly workMs: number;
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
    const { messages, maxBacklog, workMs } = this.#options;
    while (!this.#stopped && this.#next <= messages) {
      const backlog = this.#next - 1 - this.#completed();
      if (this.#next > this.#due || backlog >= maxBacklog) {
        await sleep(PAUSE_MS);
        continue;
      }
      const n = this.#next++;
      await this.#sendUntilConfirmed(`${n}`, { workMs: workMs(n) });
    }
  }

  async #sendUntilConfirmed(id: string, job: Job): Promise<void> {
    const endsAt = performance.now() + this.#options.limitMs;
    for (;;) {
      try {
        await this.#mailbox.send(job, { id });
        this.sent++;
        return;
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
