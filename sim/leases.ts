// The rules about leases: leases of healthy processes last, and failed calls about leases are repeated.

import type { IdleWorkers } from "./idle_workers.ts";
import type { Link } from "./link.ts";
import { INBOX } from "./member.ts";
import type { Scheduler } from "./scheduler.ts";
import type { Timeline } from "./timeline.ts";
import type { Broken, Handling, Lease } from "./tracked.ts";

/** The slowest clock, as a factor of the duration. */
const SLOWEST_CLOCK = 1.02;

/** A failed extension is tried again after this share of the visibility timeout, at the latest. */
const EXTENDED_AGAIN_SHARE = 0.1;

/** A failed acknowledgement is tried again after this time, at the latest. */
const ACKNOWLEDGED_AGAIN_MS = 1_000;

/** How long before the end of the lease an acknowledgement may be given up, because a late extension moved the end. */
const GIVEN_UP_MS = 2_000;

/** How soon an acknowledgement arrives after the faults and their effects are over. */
const ACKNOWLEDGED_WITHIN_MS = 500;

/** A message that was received ahead is released when its handler has not started within this time. */
const UNSTARTED_MS = 300;

/** A process does something with a delivery within this time. */
const USED_WITHIN_MS = 1_000;

/** Within this time a process knows that it has settled a message. */
const SETTLED_WITHIN_MS = 10_000;

/** The leases of all deliveries, by receipt handle. */
export class Leases {
  readonly #scheduler: Scheduler;
  readonly #timeline: Timeline;
  readonly #idle: IdleWorkers;
  readonly #broken: Broken;
  readonly #leases = new Map<string, Lease>();
  readonly #settledBy = new Map<string, Link>();
  readonly #keepingNone = new Set<Link>();

  constructor(scheduler: Scheduler, timeline: Timeline, idle: IdleWorkers, broken: Broken) {
    this.#scheduler = scheduler;
    this.#timeline = timeline;
    this.#idle = idle;
    this.#broken = broken;
  }

  get(handle: string): Lease | undefined {
    return this.#leases.get(handle);
  }

  /** Records that a message was delivered. */
  begins(
    { leasedMs, ...terms }:
      & Pick<Lease, "message" | "handle" | "link" | "visibilityMs">
      & { readonly leasedMs?: number },
  ): void {
    const { now } = this.#scheduler;
    const until = now + (leasedMs ?? terms.visibilityMs);
    const lease: Lease = {
      ...terms,
      isHandedOver: leasedMs !== undefined,
      since: now,
      until,
      arrivedAt: Infinity,
      extendedAt: -Infinity,
      calls: 0,
      isLeft: false,
      isCancelled: false,
    };
    this.#leases.set(lease.handle, lease);
    lease.message.lease = lease;
  }

  /** Records that a process receives no message ahead, or releases messages that it cannot handle soon. */
  keepsNoneWaiting(link: Link): void {
    this.#keepingNone.add(link);
  }

  /** Records that a delivery has reached its process. */
  arrived(handle: string): void {
    const lease = this.#leases.get(handle);
    if (lease === undefined) return;
    const { link, message: { queue } } = lease;
    const { now } = this.#scheduler;
    lease.arrivedAt = now;
    if (!this.#keepingNone.has(link) || queue.startsWith(INBOX)) return;
    this.#expectCall(lease, UNSTARTED_MS, "waiting messages are released", () => {
      return outcomeOf(lease) === undefined && link.undisturbedSince(now);
    });
    this.#expectUse(lease);
  }

  /** Records that a process has not confirmed a message that was handed over to it. */
  unconfirmed(handle: string): void {
    const lease = this.#leases.get(handle)!;
    const { link, message, since } = lease;
    const isLeft = message.lease === lease && link.undisturbedSince(since);
    if (isLeft) this.#broken("handovers arrive", handle);
  }

  /** Records that an extension has reached the server. */
  extended(handle: string, { ms, done }: { readonly ms: number; readonly done: boolean }): void {
    const { now } = this.#scheduler;
    const lease = this.#leases.get(handle);
    const isValid = lease !== undefined && lease.message.lease === lease && now < lease.until;
    if (done !== isValid) this.#broken("fence", `an extension of ${handle} was ${done}`);
    if (!done || lease === undefined) return;
    lease.until = Math.max(lease.until, now + ms);
    lease.extendedAt = now;
  }

  /** Records that a delivery was settled. */
  settled(handle: string, by: Link): void {
    this.#settledBy.set(handle, by);
  }

  /** Records that a process has tried to extend a lease that it had settled. */
  extendedSettled(handle: string): void {
    const link = this.#settledBy.get(handle);
    if (link?.undisturbedSince(this.#scheduler.now - SETTLED_WITHIN_MS) === true) {
      this.#broken("no extension after a settlement", handle);
    }
  }

  /** Records that a process calls the engine to extend or to settle messages. */
  calls(handles: readonly string[]): void {
    for (const handle of handles) {
      const lease = this.#leases.get(handle);
      if (lease !== undefined) lease.calls++;
    }
  }

  /** Records that extensions have failed. The process tries again while the handlers run. */
  extensionFailed(handles: readonly string[]): void {
    for (const handle of handles) {
      const lease = this.#leases.get(handle);
      // A handler that settles its message itself may be about to do so.
      if (lease === undefined || lease.message.job.work === "settles") continue;
      const withinMs = lease.visibilityMs * EXTENDED_AGAIN_SHARE;
      this.#expectCall(lease, withinMs, "failed calls are repeated", () => {
        return outcomeOf(lease) === "running" && this.#scheduler.now < lease.until;
      });
    }
  }

  /** Records that acknowledgements have failed. The process tries again while the leases last. */
  acknowledgementFailed(handles: readonly string[]): void {
    for (const handle of handles) {
      const lease = this.#leases.get(handle);
      if (lease === undefined) continue;
      this.#expectCall(lease, ACKNOWLEDGED_AGAIN_MS, "failed calls are repeated", () => {
        return this.#isRepeated(lease) && this.#scheduler.now < lease.until - GIVEN_UP_MS;
      });
    }
  }

  /** Returns how many messages were cancelled while a process held them. */
  cancelledOf(link: Link): number {
    return [...this.#leases.values()].filter((it) => it.link === link && it.isCancelled).length;
  }

  /** Records that releases, nacks or dead-letterings have failed. The process tries again a few times. */
  settlementFailed(handles: readonly string[]): void {
    for (const handle of handles) {
      const lease = this.#leases.get(handle);
      if (lease !== undefined) lease.isLeft = true;
    }
  }

  /** Records that a lease has expired, and that the message is delivered again. */
  expired(lease: Lease): void {
    const { handle, link, since, until, visibilityMs } = lease;
    if (this.#scheduler.now < until) this.#broken("one lease", `${handle} has not expired`);
    this.#timeline.add("server", `the lease of ${handle} has expired`);
    // A process repeats extensions and acknowledgements that a fault has hit; it repeats other calls only five times.
    const outcome = outcomeOf(lease);
    const isKept = outcome !== "failed" && outcome !== "cancelled" && !lease.isLeft;
    const withinMs = this.#isRepeated(lease) ? ACKNOWLEDGED_WITHIN_MS : Infinity;
    const healthySince = Math.max(since, until - Math.min(visibilityMs / 2, withinMs));
    if (isKept && link.undisturbedSince(healthySince)) {
      this.#broken("leases last", `${handle} of ${link.host.name} expired without a fault`);
    }
  }

  /** Returns true if a loop keeps acknowledging the message. A member leaves it to its lease. */
  #isRepeated(lease: Lease): boolean {
    const { link, message: { queue } } = lease;
    return outcomeOf(lease) === "done" && !this.#idle.isStopping(link) && !queue.startsWith(INBOX);
  }

  /** Expects that a process starts a message, or calls the engine about it, when the faults are over. */
  #expectUse(lease: Lease): void {
    this.#scheduler.after(USED_WITHIN_MS, () => {
      const { message, link, calls, handle } = lease;
      const isUsed = calls > 0 || outcomeOf(lease) !== undefined;
      if (message.lease !== lease || isUsed || link.host.dead) return;
      if (!link.undisturbedSince(this.#scheduler.now - USED_WITHIN_MS)) this.#expectUse(lease);
      else this.#broken("no delivery is forgotten", handle);
    });
  }

  /** Expects that a process calls the engine about a message within `ms`, if `isDue` then. */
  #expectCall(lease: Lease, ms: number, rule: string, isDue: () => boolean): void {
    const { calls, message, handle, link: { host } } = lease;
    const { frozenMs } = host;
    this.#scheduler.after(ms * SLOWEST_CLOCK, () => {
      if (message.lease !== lease || lease.calls > calls || host.dead) return;
      if (host.frozenMs === frozenMs && isDue()) this.#broken(rule, handle);
    });
  }
}

/** How the handler of a delivery has ended; undefined when it has not started. */
function outcomeOf({ handle, message: { handlings } }: Lease): Handling["outcome"] | undefined {
  return handlings.findLast((it) => it.handle === handle)?.outcome;
}

/**
 * Returns until when a process may consider its lease valid. It counts from the arrival of the delivery, or from an
 * extension, by a clock that may be slow.
 */
export function trustedUntil({ until, arrivedAt, extendedAt, visibilityMs }: Lease): number {
  return Math.max(until, Math.max(arrivedAt, extendedAt) + visibilityMs * SLOWEST_CLOCK);
}
