// Cancels some of the messages of a run, a moment after each was sent.

import { setTimeout as sleep } from "node:timers/promises";
import type { Mailbox } from "../mod.ts";
import { seededRandom } from "../src/random.ts";
import type { CancelAnswer, Ledger } from "./_ledger.ts";
import type { Job } from "./_sender.ts";

/** The longest time between a send and its cancel: some messages wait then, some are handled, some are done. */
const WITHIN_MS = 1_000;

/** What {@linkcode Canceller} needs. */
export interface CancellerOptions {
  readonly mailbox: Mailbox<Job>;
  readonly ledger: Ledger;
  /** Determines which messages are cancelled, and how soon. */
  readonly seed: number;
  /** The share of messages that are cancelled. */
  readonly share: number;
  /** The ids of messages that are not cancelled. */
  readonly except: ReadonlySet<string>;
}

/** Cancels messages and records the answers. */
export class Canceller {
  readonly #options: CancellerOptions;
  readonly #pending = new Set<Promise<void>>();

  constructor(options: CancellerOptions) {
    this.#options = options;
  }

  /** Called for each message that was sent. */
  sent(id: string): void {
    const { seed, share, except } = this.#options;
    // By the message, because the order of the confirmations depends on the machine.
    const random = seededRandom(seed + Number(id));
    if (random.number() >= share || except.has(id)) return;
    const cancelling = this.#cancel(id, random.number() * WITHIN_MS);
    this.#pending.add(cancelling);
    void cancelling.finally(() => this.#pending.delete(cancelling));
  }

  /** Resolves when all cancels are answered. */
  async finish(): Promise<void> {
    await Promise.all(this.#pending);
  }

  async #cancel(id: string, afterMs: number): Promise<void> {
    const { mailbox, ledger } = this.#options;
    await sleep(afterMs);
    const at = Date.now();
    ledger.cancel(id, await answerOf(mailbox.cancel(id)), at);
  }
}

/** During an outage the answer is lost, not always the cancel. */
async function answerOf(cancelling: Promise<boolean>): Promise<CancelAnswer> {
  try {
    return await cancelling;
  } catch {
    return "unknown";
  }
}
