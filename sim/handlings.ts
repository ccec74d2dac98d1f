// The rules about calls of handlers: each has a lease, and no other call does the same work.

import { trustedUntil } from "./leases.ts";
import type { Broken, Handling, Lease, Tracked } from "./tracked.ts";

/** A handler hears within this time that its message was cancelled. */
const ABORT_MS = 1_000;

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
  if (lease !== undefined && now > trustedUntil(lease)) {
    broken("expired leases start nothing", handle);
  }
  if (!link.undisturbedSince(deliveredAt)) return;
  for (const earlier of message.handlings) {
    if (!earlier.link.undisturbedSince(earlier.deliveredAt)) continue;
    const isRunning = earlier.outcome === "running" && !earlier.link.host.dead;
    if (earlier.outcome === "done") broken("handled once", `${handle} after ${earlier.handle}`);
    if (isRunning) broken("one at a time", `${handle} beside ${earlier.handle}`);
  }
}

/**
 * Checks a step that begins. Its saved result came with the delivery, unless another process has saved it meanwhile.
 * This process cannot know that before its lease has ended by its own clock.
 */
export function checkStep(
  message: Tracked,
  { handle, link, deliveredAt }: Handling,
  { lease, name, now }: { readonly lease: Lease; readonly name: string; readonly now: number },
  broken: Broken,
): void {
  if (!message.savedSteps.has(name)) return;
  const isDeceived = message.lease !== lease && !link.undisturbedSince(deliveredAt);
  if (isDeceived && now <= trustedUntil(lease)) return;
  broken("steps run once", `${name} of ${handle} ran again`);
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
