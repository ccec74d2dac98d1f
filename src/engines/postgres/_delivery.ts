import type { Delivery } from "../../mailbox/engine.ts";

/** A message as the statements return it. Names of one word survive the name transforms of a client. */
export interface Row {
  readonly key: string;
  readonly id: string;
  readonly body: string;
  readonly count: number;
  readonly enqueued: number;
  readonly address: string | null;
  readonly checkpoint: string | null;
}

/** A message that was received from the table. All deliveries of one pull share a nonce. */
export class PostgresDelivery implements Delivery<string> {
  readonly key: string;
  readonly nonce: string;
  readonly id: string;
  readonly body: string;
  readonly deliveryCount: number;
  readonly enqueuedAt: number;
  readonly replyTo: string | undefined;
  readonly checkpoint: string | undefined;
  /** The settlement whose reply was lost; the server may have run it. */
  unanswered: string | undefined;

  constructor(row: Row, nonce: string) {
    this.key = String(row.key);
    this.nonce = nonce;
    this.id = row.id;
    this.body = row.body;
    this.deliveryCount = Number(row.count);
    this.enqueuedAt = Math.floor(Number(row.enqueued));
    this.replyTo = row.address ?? undefined;
    this.checkpoint = row.checkpoint ?? undefined;
  }

  get receipt(): string {
    return `${this.key}-${this.nonce}`;
  }
}
