import type { BackoffOptions } from "../_backoff.ts";
import type { Delivery } from "./engine.ts";
import {
  type Envelope,
  type MessageEnvelope,
  type MessageHeaders,
  type OnExpired,
  replyName,
} from "./envelope.ts";

/** Every field of the envelope, also the optional ones, so that a forgotten getter does not compile. */
type EnvelopeGetters = {
  readonly [K in keyof Required<MessageEnvelope>]: MessageEnvelope[K];
};

/** What a delivery brought, as its handler reads it. */
export class DeliveredMessage<T, B> implements EnvelopeGetters {
  readonly delivery: Delivery<B>;
  readonly body: T;
  protected readonly envelope: Envelope;

  constructor(delivery: Delivery<B>, body: T, envelope: Envelope) {
    this.delivery = delivery;
    this.body = body;
    this.envelope = envelope;
  }

  get id(): string {
    return this.delivery.id;
  }

  get receiptHandle(): string {
    return this.delivery.receiptHandle;
  }

  get deliveryCount(): number {
    return this.delivery.deliveryCount;
  }

  get leaseExpiries(): number | undefined {
    return this.delivery.leaseExpiries;
  }

  get enqueuedAt(): number {
    return this.delivery.enqueuedAt;
  }

  get replyTo(): string | undefined {
    const { replyTo } = this.envelope;
    return replyTo === undefined ? undefined : replyName(replyTo);
  }

  get headers(): MessageHeaders {
    return this.envelope.headers;
  }

  get key(): string | undefined {
    return this.envelope.key;
  }

  get priority(): number | undefined {
    return this.envelope.priority;
  }

  get expiresInMs(): number | undefined {
    return this.envelope.expiresInMs;
  }

  get expiresAt(): number | undefined {
    const { expiresInMs } = this.envelope;
    return expiresInMs === undefined ? undefined : this.enqueuedAt + expiresInMs;
  }

  get onExpired(): OnExpired | undefined {
    return this.envelope.onExpired;
  }

  get maxDeliveries(): number | undefined {
    return this.envelope.maxDeliveries;
  }

  get backoff(): BackoffOptions | undefined {
    return this.envelope.backoff;
  }
}
