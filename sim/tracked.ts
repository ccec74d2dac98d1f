// What is known of each message: its place, its lease, and the calls of its handlers.

import type { Entry } from "../src/mailbox/engine.ts";
import type { Job } from "./jobs.ts";
import type { Link } from "./link.ts";

/** The right to settle a message. */
export interface Lease {
  readonly message: Tracked;
  readonly handle: string;
  readonly link: Link;
  readonly since: number;
  readonly visibilityMs: number;
  /** The message was handed over: other processes do not know that it is in flight before they ask. */
  readonly isHandedOver: boolean;
  until: number;
  /** When the process learned of it. */
  arrivedAt: number;
  /** When the server last extended it. */
  extendedAt: number;
  /** How often the process has tried to extend it or to settle its message. */
  calls: number;
  /** A call to release, nack or dead-letter the message has failed. The process gives up after a few. */
  isLeft: boolean;
  /** The message was cancelled. The process may learn of that only from a refused settlement. */
  isCancelled: boolean;
}

/** A call of a handler. */
export interface Handling {
  readonly handle: string;
  readonly link: Link;
  readonly deliveredAt: number;
  readonly startedAt: number;
  outcome: "running" | "done" | "failed" | "cancelled" | "settled";
  /** When the message was cancelled while the handler ran. */
  cancelledAt: number | undefined;
  /** The drain of an inbox no longer waits for it, and releases the message. */
  isLeft: boolean;
}

/** Everything that is known of a message. */
export interface Tracked {
  readonly queue: string;
  readonly id: string;
  readonly key: string | undefined;
  readonly job: Job;
  readonly number: number;
  readonly sentAt: number;
  readonly isDelayed: boolean;
  readonly expiresAt: number;
  place: "stored" | "acknowledged" | "dead" | "cancelled";
  lease: Lease | undefined;
  readonly handlings: Handling[];
  /** Since when it could be delivered; undefined while it is hidden or blocked. */
  visibleSince: number | undefined;
  /** How many leases ended unsettled because of an injected fault, and because of poison. */
  lostLeases: number;
  failures: number;
  /** The number of the last delivery, without those that count no attempt. */
  deliveryCount: number;
  /** How many releases there were since the last checkpoint. */
  releases: number;
  readonly savedSteps: Set<string>;
}

/** Reports that a rule is broken. */
export type Broken = (rule: string, text: string) => void;

/** Returns the record of a message that was stored, and its id on the bus if it was sent to a member. */
export function trackedOf(
  queue: string,
  { id, key, delayMs, body, meta }: Entry<string>,
  { now, number }: { readonly now: number; readonly number: number },
): { readonly message: Tracked; readonly messageId: string | undefined } {
  const { payload, msg_id: messageId, ...job } = JSON.parse(body);
  const { expiresInMs = Infinity } = meta === undefined ? {} : JSON.parse(meta);
  const message: Tracked = {
    ...{ queue, id, key, number },
    job: payload ?? job,
    sentAt: now,
    isDelayed: delayMs > 0,
    expiresAt: now + expiresInMs,
    place: "stored",
    lease: undefined,
    handlings: [],
    visibleSince: undefined,
    lostLeases: 0,
    failures: 0,
    deliveryCount: 0,
    releases: 0,
    savedSteps: new Set(),
  };
  return { message, messageId };
}
