// The rules about dead letters: only failed messages are dead-lettered.

import type { Entry } from "../src/mailbox/engine.ts";
import { isInnocent } from "./jobs.ts";
import type { Broken, Tracked } from "./tracked.ts";

/** The lowest number of lost leases after which an unhandled message may be dead-lettered. */
const SPENT_AFTER = 4;

/** The most deliveries of a message, for queues without their own limit. */
const MOST_DELIVERIES = 10;

/** The dead letters of all queues. */
export class DeadLetters {
  readonly #broken: Broken;
  readonly #counts = new Map<string, number>();
  readonly #mostDeliveries = new Map<string, number>();

  constructor(broken: Broken) {
    this.#broken = broken;
  }

  /** Sets the most deliveries of the messages of a queue. */
  allowDeliveries(queue: string, most: number): void {
    this.#mostDeliveries.set(queue, most);
  }

  /** Returns the number of dead letters of a queue. */
  count(queue: string): number {
    return this.#counts.get(queue) ?? 0;
  }

  /** Records that a message was dead-lettered. Returns the reason. */
  add(message: Tracked, handle: string, { letter, now }: {
    readonly letter: Entry<string>;
    readonly now: number;
  }): string {
    const { queue, expiresAt } = message;
    const { reason } = JSON.parse(letter.body);
    this.#counts.set(queue, this.count(queue) + 1);
    if (reason !== "expired") this.#check(message, handle);
    else if (now < expiresAt) this.#broken("expiry", `${handle} had not expired`);
    return reason;
  }

  #check({ queue, job: { work }, failures, lostLeases }: Tracked, handle: string): void {
    const most = this.#mostDeliveries.get(queue) ?? MOST_DELIVERIES;
    if (isInnocent(work) && lostLeases < SPENT_AFTER) {
      this.#broken(
        "only failed messages are dead-lettered",
        `${handle} (${work}): ${failures} failures and ${lostLeases} lost leases of ${most}`,
      );
    }
    if (work === "bad" && failures + 1 < most && lostLeases < SPENT_AFTER) {
      this.#broken("attempts", `${handle} was dead-lettered after ${failures} of ${most}`);
    }
  }
}
