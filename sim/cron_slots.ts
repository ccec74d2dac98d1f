// The rule about cron slots: each has a message, from the first one on.

import { slotId } from "../src/cron/slot.ts";
import type { Entry } from "../src/mailbox/engine.ts";
import { EPOCH } from "./host.ts";
import { CRON_QUEUE } from "./jobs.ts";
import type { Broken } from "./tracked.ts";

/** The period of the slots. */
export const SLOT_MS = 10_000;

/** Clocks of processes differ by so much at the most, and a slot may be sent so much late. */
const SLOT_LATE_MS = 120_000;

/** The slots of the schedule that all processes share. */
export class CronSlots {
  readonly #broken: Broken;
  readonly #sent = new Set<string>();
  /** The latest slot that a process has recorded as sent, as a time. */
  #recorded = -Infinity;

  constructor(broken: Broken) {
    this.#broken = broken;
  }

  /** Records that the message of a slot was stored. */
  sent(id: string): void {
    this.#sent.add(id);
  }

  /** Records that a process has stored up to which slot all were sent. */
  recorded({ body }: Entry<string>): void {
    const { at, isStart = false } = JSON.parse(body);
    if (!isStart) this.#recorded = Math.max(this.#recorded, at);
  }

  /** Checks the slots from the first one to the last one that was recorded, or that is long over. */
  check(endedAt: number): void {
    const until = Math.max(this.#recorded, EPOCH + endedAt - SLOT_LATE_MS);
    let isBegun = false;
    for (let at = EPOCH - SLOT_LATE_MS; at <= until; at += SLOT_MS) {
      const id = slotId("cron", at);
      if (this.#sent.has(id)) isBegun = true;
      else if (isBegun) return this.#broken("one message per slot", `${id} was not sent`);
    }
  }
}

/** Whether a queue has the records of cron loops, which are replaced, instead of messages. */
export function isCronRecord(queue: string): boolean {
  return queue === `${CRON_QUEUE}.cron`;
}
