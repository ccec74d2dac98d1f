// How the time of a stop is spent. The same arithmetic as the group's own: one deadline, of which the
// unready delay is a part, and of which each stage leaves a reserve to the next.

import { reserveOf } from "../../src/lifecycle/deadline.ts";
import { wholeSeconds } from "./times.ts";

/** How long work in flight may go on before its signal aborts; loops of one priority are assumed. */
export function workTimeMs(shutdownTimeoutMs: number, unreadyDelayMs: number): number {
  const loopsMs = shutdownTimeoutMs - unreadyDelayMs - reserveOf(shutdownTimeoutMs);
  return Math.max(0, loopsMs - reserveOf(Math.max(0, loopsMs)));
}

/** The shortest stop, in whole seconds, that leaves so much for work. */
export function timeoutFor(workMs: number, unreadyDelayMs: number): number {
  let timeoutMs = wholeSeconds(workMs + unreadyDelayMs);
  while (workTimeMs(timeoutMs, unreadyDelayMs) < workMs) timeoutMs += 1_000;
  return timeoutMs;
}

/** What should be left of the grace: hooks before the signal and the end of a process take time too. */
export function headroomMs(graceMs: number): number {
  return Math.min(2_000, graceMs / 10);
}

/** The shortest grace, in whole seconds, that leaves headroom after a stop. */
export function graceFor(shutdownTimeoutMs: number): number {
  let graceMs = wholeSeconds(shutdownTimeoutMs);
  while (graceMs - headroomMs(graceMs) < shutdownTimeoutMs) graceMs += 1_000;
  return graceMs;
}
