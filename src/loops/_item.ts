import type { Lease } from "../lease/lease.ts";
import type { Work } from "../lifecycle/base_loop.ts";
import type { Message } from "../mailbox/mailbox.ts";
import type { MessageContext } from "./handler.ts";

/** A message from its receipt to its end. */
export class Item<T, R> implements Work {
  readonly message: Message<T, R>;
  readonly lease: Lease;
  readonly since: number;
  /** While it is at work. */
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
