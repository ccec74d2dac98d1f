// The rules about workers that wait: they receive what becomes visible, also from processes that have died.

import { LONGEST_POLL_MS } from "./engine.ts";
import type { Link } from "./link.ts";
import type { Scheduler } from "./scheduler.ts";
import type { Timeline } from "./timeline.ts";
import type { Broken, Lease, Tracked } from "./tracked.ts";

/** A message that waits this long beside an idle worker was forgotten. */
const IDLE_WAIT_MS = 300;

/** The messages of a process that was killed are visible again within this time. */
const RECOVERY_MS = 5_000;

/** A worker that waits. */
interface Waiting {
  readonly since: number;
  /** When its last receive was answered. A slow answer lets it sleep too long. */
  askedAt: number;
}

/** Knows since when each process waits for messages of a queue and has none. */
export class IdleWorkers {
  readonly #scheduler: Scheduler;
  readonly #timeline: Timeline;
  readonly #broken: Broken;
  readonly #waiting = new Map<string, Map<Link, Waiting>>();
  readonly #stopping = new Set<Link>();
  readonly #pausedUntil = new Map<string, number>();

  constructor(scheduler: Scheduler, timeline: Timeline, broken: Broken) {
    this.#scheduler = scheduler;
    this.#timeline = timeline;
    this.#broken = broken;
  }

  /** A receive has found no message. `holds` tells whether the process has other messages of the queue. */
  foundNone(link: Link, queue: string, holds: boolean): void {
    if (this.#stopping.has(link)) return;
    const idle = this.#waiting.get(queue) ?? new Map<Link, Waiting>();
    this.#waiting.set(queue, idle);
    const { now } = this.#scheduler;
    const waiting = idle.get(link);
    if (waiting !== undefined) waiting.askedAt = now;
    else if (!holds) idle.set(link, { since: now, askedAt: now });
  }

  /** The process has received a message. */
  took(link: Link, queue: string): void {
    this.#waiting.get(queue)?.delete(link);
  }

  /** The process takes no more messages. */
  stops(link: Link): void {
    this.#stopping.add(link);
    for (const idle of this.#waiting.values()) idle.delete(link);
  }

  /** Returns true if the process receives no more messages. */
  isStopping(link: Link): boolean {
    return this.#stopping.has(link);
  }

  paused(queue: string, forMs: number): void {
    const until = Math.max(this.#pausedUntil.get(queue) ?? 0, this.#scheduler.now + forMs);
    this.#pausedUntil.set(queue, forMs === 0 ? this.#scheduler.now : until);
    this.#timeline.add("admin", forMs === 0 ? `resume ${queue}` : `pause ${queue} for ${forMs} ms`);
  }

  /** Checks a message that is delivered to `receiver`. */
  check({ visibleSince, queue, id }: Tracked, receiver: Link): void {
    const { now } = this.#scheduler;
    const pausedUntil = this.#pausedUntil.get(queue) ?? -Infinity;
    if (visibleSince === undefined) return;
    const since = Math.max(visibleSince, pausedUntil);
    if (now - since < IDLE_WAIT_MS) return;
    for (const [link, waiting] of this.#waiting.get(queue) ?? []) {
      const couldTake = Math.max(since, waiting.since);
      const healthySince = Math.min(couldTake, waiting.askedAt);
      if (now - couldTake < IDLE_WAIT_MS || !link.undisturbedSince(healthySince)) continue;
      const name = link === receiver ? "its receiver" : link.host.name;
      this.#broken(
        "idle workers receive",
        `${queue}/${id} waited ${now - since} ms beside ${name}`,
      );
    }
  }

  /**
   * Records that a process was killed. An idle one must get its messages, long before their leases expire. It learns
   * of messages that were handed over only when it receives again.
   */
  expectRecovery(messages: readonly Tracked[]): void {
    const { now } = this.#scheduler;
    for (const { lease } of messages) {
      if (lease === undefined) continue;
      const withinMs = RECOVERY_MS + (lease.isHandedOver ? LONGEST_POLL_MS : 0);
      this.#scheduler.after(withinMs, () => this.#checkRecovery(lease, now));
    }
  }

  #checkRecovery(lease: Lease, diedAt: number): void {
    const { message, handle, until } = lease;
    if (message.lease !== lease || until <= this.#scheduler.now) return;
    for (const [link, { since }] of this.#waiting.get(message.queue) ?? []) {
      if (since > diedAt || !link.undisturbedSince(diedAt)) continue;
      this.#broken("dead workers are noticed", `${handle} beside ${link.host.name}`);
    }
  }
}
