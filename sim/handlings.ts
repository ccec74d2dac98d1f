// The rules about calls of handlers: each has a lease, and no other call does the same work.

import { isInnocent } from "./jobs.ts";
import type { Broken, Handling, Lease, Tracked } from "./tracked.ts";

/** How much longer a clock may take for the same time. */
const SLOWEST_CLOCK = 1.02;

/** A handler hears within this time that its message was cancelled. */
const ABORT_MS = 1_000;

/** A message is dead-lettered unhandled after so many lost leases, at the least. */
const SPENT_AFTER = 4;

/** After a fault, a handler may start without a lease for so long. */
const EXCUSED_MS = 60_000;

/** Checks a handler that begins. `lease` is that of its delivery, which may have ended. */
export function checkStart(
  message: Tracked,
  { handle, link, startedAt: now, deliveredAt }: Handling,
  lease: Lease | undefined,
  broken: Broken,
): void {
  const isLeased = message.lease?.handle === handle;
  const isExcused = !link.undisturbedSince(now - EXCUSED_MS) || message.place === "cancelled";
  if (!isLeased && !isExcused) broken("handlers have leases", handle);
  if (isLeased && message.lease!.since >= message.expiresAt) {
    broken("expired messages are not handled", handle);
  }
  if (lease !== undefined) {
    const endsAt = Math.max(lease.until, lease.arrivedAt + lease.visibilityMs * SLOWEST_CLOCK);
    if (now > endsAt) broken("expired leases start nothing", handle);
  }
  if (!link.undisturbedSince(deliveredAt)) return;
  for (const earlier of message.handlings) {
    if (!earlier.link.undisturbedSince(earlier.deliveredAt)) continue;
    const isRunning = earlier.outcome === "running" && !earlier.link.host.dead;
    if (earlier.outcome === "done") broken("handled once", `${handle} after ${earlier.handle}`);
    if (isRunning) broken("one at a time", `${handle} beside ${earlier.handle}`);
  }
}

/** Checks a handler that has returned. */
export function checkDone(
  { link, handle, startedAt, cancelledAt = Infinity }: Handling,
  now: number,
  broken: Broken,
): void {
  if (link.undisturbedSince(startedAt) && now > cancelledAt + ABORT_MS) {
    broken("cancelled handlers end", `${handle} went on after its message was cancelled`);
  }
}

/** Checks a message that was dead-lettered after at most `most` deliveries, and has not expired. */
export function checkDeadLetter(
  { job: { work }, failures, lostLeases }: Tracked,
  handle: string,
  most: number,
  broken: Broken,
): void {
  if (isInnocent(work) && lostLeases < SPENT_AFTER) {
    broken(
      "only failed messages are dead-lettered",
      `${handle} (${work}): ${failures} failures and ${lostLeases} lost leases of ${most}`,
    );
  }
  if (work === "bad" && failures + 1 < most && lostLeases < SPENT_AFTER) {
    broken("attempts", `${handle} was dead-lettered after ${failures} of ${most}`);
  }
}
