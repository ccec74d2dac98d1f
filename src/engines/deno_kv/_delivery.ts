import type { Delivery } from "../../mailbox/engine.ts";
import type { KvKey } from "./kv.ts";
import type { StoredMessage } from "./_record.ts";

/** A message that was taken. Whoever knows the stamp of its entry has it. */
export class KvDelivery implements Delivery<string> {
  message: StoredMessage;
  key: KvKey;
  versionstamp: string;
  /** By the clock on the wall. */
  leaseEndsAt: number;
  readonly receipt: string;
  readonly checkpoint: string | undefined;
  /** Resolves when nothing is under way with it: each change makes a new stamp. */
  quiet: Promise<unknown> = Promise.resolve();

  constructor(
    message: StoredMessage,
    key: KvKey,
    versionstamp: string,
    leaseEndsAt: number,
    checkpoint: string | undefined,
  ) {
    this.message = message;
    this.key = key;
    this.versionstamp = versionstamp;
    this.leaseEndsAt = leaseEndsAt;
    this.receipt = `${message.seq}-${message.nonce}-${versionstamp}`;
    this.checkpoint = checkpoint;
  }

  get id(): string {
    return this.message.id;
  }

  get body(): string {
    return this.message.body;
  }

  get deliveryCount(): number {
    return this.message.deliveries;
  }

  get enqueuedAt(): number {
    return this.message.enqueuedAt;
  }

  get replyTo(): string | undefined {
    return this.message.replyTo;
  }
}
