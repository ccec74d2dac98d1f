// What is known of each message: its place, its lease, and the calls of its handlers.

import type { Job } from "./jobs.ts";
import type { Link } from "./link.ts";

/** The right to settle a message. */
export interface Lease {
  readonly handle: string;
  readonly link: Link;
  readonly since: number;
  readonly visibilityMs: number;
  until: number;
  /** When the process learned of it. */
  arrivedAt: number;
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
