// Deliveries: the records of the server, the calls that request them, and how they end.

import type { Delivery, Received } from "../src/mailbox/engine.ts";
import type { MemoryDelivery } from "../src/mailbox/_memory_line.ts";
import type { WaitTerms } from "./handovers.ts";
import type { Link } from "./link.ts";

/** How a delivery was settled. */
export type SettlementKind = "acknowledge" | "nack" | "release" | "deadLetter";

/** How a message is nacked; a message that is settled in another way counts an attempt and does not wait. */
export interface NackTerms {
  readonly countsAttempt: boolean;
  readonly delayMs: number;
}

export const PLAIN: NackTerms = { countsAttempt: true, delayMs: 0 };

/** The server's record of a delivery. */
export interface Held {
  readonly queue: string;
  readonly handle: string;
  readonly delivery: MemoryDelivery<string>;
  readonly link: Link;
  readonly callId: string;
}

/** The answer to a receive. */
export interface ReceiveAnswer extends Received<string> {
  /** Whether messages of the queue are in flight: their owners may die. */
  readonly inFlight: boolean;
  /** When the server answered, in milliseconds. */
  readonly at: number;
}

/** How long a delivery is leased, and how long the first lease of a handover is. */
export interface LeaseTerms {
  readonly visibilityMs: number;
  readonly leasedMs?: number;
}

/** A receive. Its wait begins if it finds no message. */
export interface ReceiveTerms extends WaitTerms {
  readonly max: number;
  readonly visibilityMs: number;
  readonly callId: string;
}

/** Returns the copy of a delivery that travels to the process. */
export function copyOf(delivery: MemoryDelivery<string>, receiptHandle: string): Delivery<string> {
  const { id, body, meta, deliveryCount, leaseExpiries, enqueuedAt, checkpoint } = delivery;
  return { id, body, meta, receiptHandle, deliveryCount, leaseExpiries, enqueuedAt, checkpoint };
}
