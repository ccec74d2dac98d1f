import type { Delivery } from "../../mailbox/engine.ts";
import type { KvKey } from "./kv.ts";
import type { StoredMessage } from "./_record.ts";

/** A message that was received. The versionstamp of its entry is the proof of the lease. */
export class KvDelivery implements Delivery<string> {
  message: StoredMessage;
  key: KvKey;
  versionstamp: string;
  /** By the wall clock, in milliseconds. */
  leaseEndsAt: number;
  readonly receipt: string;
  readonly checkpoint: string | undefined;
  /** Resolves when the last change is complete. Changes are serialized, as each makes a new versionstamp. */
  lastChange: Promise<unknown> = Promise.resolve();

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
