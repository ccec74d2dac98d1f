import type { Delivery } from "../../mailbox/engine.ts";

/** A message as the file stores it. */
export interface Row {
  readonly seq: number;
  readonly id: string;
  readonly body: string;
  readonly deliveries: number;
  readonly enqueued_at: number;
  readonly reply_to: string | null;
  readonly checkpoint: string | null;
}

/** A message that was received from the file. All deliveries of one pull share a nonce. */
export class SqliteDelivery implements Delivery<string> {
  readonly seq: number;
  readonly nonce: number;
  readonly id: string;
  readonly body: string;
  readonly deliveryCount: number;
  readonly enqueuedAt: number;
  readonly replyTo: string | undefined;
  readonly checkpoint: string | undefined;

  /** `row` is the message before the delivery. Without a nonce it was only peeked at. */
  constructor(row: Row, nonce?: number) {
    this.seq = row.seq;
    this.nonce = nonce ?? 0;
    this.id = row.id;
    this.body = row.body;
    this.deliveryCount = row.deliveries + (nonce === undefined ? 0 : 1);
    this.enqueuedAt = row.enqueued_at;
    this.replyTo = row.reply_to ?? undefined;
    this.checkpoint = row.checkpoint ?? undefined;
  }

  get receipt(): string {
    return `${this.seq}-${this.nonce}`;
  }
}
