import { setTimeout as sleep } from "node:timers/promises";
import type { Mailbox } from "../mod.ts";

/** The body of a message. */
export interface Job {
  /** How long to work on it. */
  readonly workMs: number;
}

/** How many messages a worker works on at a time. */
export const CONCURRENCY = 10;

/** How messages are sent. */
export interface SenderOptions {
  readonly messages: number;
  /** Spread over this time; 0: as fast as it goes. */
  readonly overMs: number;
  /** A message that the engine does not take within this ends it all. */
  readonly limitMs: number;
  /** Nothing is sent while so many are not completed. */
  readonly maxBacklog: number;
  /** How long to work on message number n. */
  readonly workMs: (n: number) => number;
}

const SENDERS = 20;
const PAUSE_MS = 20;

/** In bursts, so that workers have more at a time than they can work on. */
const BURST_MS = 500;

/**
 * Sends messages with the ids 1 to n, each again and again under its id until the engine has confirmed
 * it: what was sent is there.
 */
export class Sender {
  /** How many are confirmed. */
  sent = 0;
  readonly #mailbox: Mailbox<Job>;
  readonly #options: SenderOptions;
  readonly #completed: () => number;
  readonly #startedAt = performance.now();
  #next = 1;
  #stopped = false;

  constructor(mailbox: Mailbox<Job>, options: SenderOptions, completed: () => number) {
    this.#mailbox = mailbox;
    this.#options = options;
    this.#completed = completed;
  }

  /** Sends all, or until it is stopped. */
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
      await this.#confirm(`${n}`, { workMs: workMs(n) });
    }
  }

  async #confirm(id: string, job: Job): Promise<void> {
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
