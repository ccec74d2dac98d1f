// Reads the messages that the cron loops of the workers send, one slot a second.

import { setTimeout as sleep } from "node:timers/promises";
import type { Mailbox } from "../mod.ts";
import { MAX_BATCH } from "../src/mailbox/mailbox.ts";

/** One delivery of the message of a slot. */
export interface SlotDelivery {
  /** The time of the slot, in milliseconds since the Unix epoch. */
  readonly slot: number;
  /** The number of the delivery of its message, from 1. */
  readonly delivery: number;
}

const SECOND_MS = 1_000;

/** How long an answer of the engine may be lost before the message is delivered again. */
const VISIBILITY_TIMEOUT_MS = 2_000;

/**
 * Returns the slots that were sent twice, or not at all, as text: all from the first that was sent to `until`.
 * A message that was delivered twice was not sent twice: the acknowledgement of its first delivery was lost.
 */
export function slotFaultsOf(deliveries: readonly SlotDelivery[], until: number): string[] {
  const sent = new Map<number, number>();
  for (const { slot, delivery } of deliveries) {
    sent.set(slot, (sent.get(slot) ?? 0) + (delivery === 1 ? 1 : 0));
  }
  const faults: string[] = [];
  const end = Math.floor(until / SECOND_MS) * SECOND_MS;
  const first = Math.min(end, ...sent.keys());
  const last = Math.max(end, ...sent.keys());
  for (let slot = first; slot <= last; slot += SECOND_MS) {
    const count = sent.get(slot);
    if (count === undefined || count > 1) faults.push(new Date(slot).toISOString());
  }
  return faults;
}

/** Receives and acknowledges the messages while the workers send them, so that only the remembered ids dedup. */
export class SlotReader {
  readonly deliveries: SlotDelivery[] = [];
  readonly #mailbox: Mailbox<number>;
  readonly #reading: Promise<void>;
  #isLast = false;

  constructor(mailbox: Mailbox<number>) {
    this.#mailbox = mailbox;
    this.#reading = this.#read();
  }

  /** Reads the rest, when no worker sends any more. */
  async finish(): Promise<void> {
    this.#isLast = true;
    await this.#reading;
  }

  async close(): Promise<void> {
    await this.#mailbox.close();
    await this.#reading;
  }

  async #read(): Promise<void> {
    while (!this.#mailbox.closed) {
      const isLast = this.#isLast;
      try {
        await this.#readSome();
        if (isLast && await this.#mailbox.approximateCount() === 0) return;
      } catch {
        // The engine is away. A message whose acknowledgement was lost is delivered again.
      }
      await sleep(100);
    }
  }

  async #readSome(): Promise<void> {
    const options = { maxMessages: MAX_BATCH, visibilityTimeoutMs: VISIBILITY_TIMEOUT_MS };
    const messages = await this.#mailbox.receive(options);
    for (const { body: slot, deliveryCount: delivery } of messages) {
      this.deliveries.push({ slot, delivery });
    }
    for (const message of messages) await message.acknowledge();
  }
}
