import type { Lease } from "../lease/lease.ts";
import type { Work } from "../lifecycle/base_loop.ts";
import type { MessageCounts } from "../lifecycle/runnable.ts";
import type { Message, Settlement } from "../mailbox/mailbox.ts";
import type { MessageContext } from "./handler.ts";

/** How a message left the loop. A `lost` message is delivered again when its lease expires. */
export type Outcome = Settlement | "lost";

/** A message from its receive until it is settled or lost. */
export class Item<T, R> implements Work {
  readonly message: Message<T, R>;
  readonly lease: Lease;
  readonly since: number;
  /** Set while its handler runs. */
  context: MessageContext | undefined;

  constructor(message: Message<T, R>, lease: Lease) {
    this.message = message;
    this.lease = lease;
    this.since = lease.lastBeat;
  }

  get id(): string {
    return this.message.id;
  }
}

/** Counts every received message exactly once, so that the figures always add up. */
export class Ledger<T, R> {
  readonly #open = new Set<Item<T, R>>();
  readonly #counts = { acknowledged: 0, released: 0, nacked: 0, deadLettered: 0, lost: 0 };
  #received = 0;

  /** The items that were received and are not settled. */
  get open(): ReadonlySet<Item<T, R>> {
    return this.#open;
  }

  get counts(): MessageCounts {
    const { lost, ...counts } = this.#counts;
    return { received: this.#received, ...counts, leftToExpire: lost + this.#open.size };
  }

  add(item: Item<T, R>): void {
    this.#received++;
    this.#open.add(item);
  }

  /** Returns false when the item was closed before; only the first outcome counts. */
  close(item: Item<T, R>, outcome: Outcome): boolean {
    if (!this.#open.delete(item)) return false;
    this.#counts[outcome]++;
    return true;
  }
}
