// The rules about whole runs: how processes stop, and what must be true in the end.

import { isCancelledError } from "../src/errors.ts";
import { reserveOf } from "../src/lifecycle/deadline.ts";
import type { DrainReport } from "../src/lifecycle/drain_report.ts";
import { SLOT_MS } from "./cron_slots.ts";
import type { Ledger } from "./ledger.ts";
import type { Worker } from "./worker.ts";

/** How long an idle process may take to stop: a few round trips of the slowest network. */
const IDLE_STOP_MS = 300;

/** Checks a cancelled handler: a stop cancels handlers near its deadline, unless a second signal forces it. */
export function checkCancel(
  ledger: Ledger,
  { stop, isForced, plan: { shutdownTimeoutMs }, link: { host } }: Worker,
  handle: string,
  { reason }: AbortSignal,
): void {
  if (stop === undefined || isForced) return;
  if (!isCancelledError(reason) || reason.reason === "cancelled") return;
  const usedMs = host.monotonic() - stop.at;
  // One reserve is for the resources, and one for the release of cancelled messages.
  const stageMs = shutdownTimeoutMs - reserveOf(shutdownTimeoutMs);
  if (usedMs < stageMs - reserveOf(stageMs) - 1) {
    ledger.broken(
      "handlers may finish",
      `${handle} was cancelled ${Math.round(usedMs)} ms after a signal`,
    );
  }
}

/** Checks a process that has ended. */
export function checkStopped(
  ledger: Ledger,
  { link, plan, stop, signals, loop }: Worker,
  report: DrainReport | undefined,
): void {
  if (report === undefined || stop === undefined) return;
  const { host } = link;
  if (!report.balanced) {
    ledger.broken("reports balance", `${host.name}: ${JSON.stringify(report.counts)}`);
  }
  const isUndisturbed = link.undisturbedSince(0);
  const stopMs = host.monotonic() - stop.at;
  // A member stops in ten steps, of which several write to the board.
  const limitMs = plan.member === undefined ? IDLE_STOP_MS : 4 * IDLE_STOP_MS;
  if (stop.isIdle && isUndisturbed && signals === 1 && stopMs > limitMs) {
    ledger.broken("idle processes stop immediately", `${host.name} took ${Math.round(stopMs)} ms`);
  }
  const isHung = report.hung.length > 0;
  if (signals > 1 || isHung) return;
  const held = ledger.open.filter(({ lease }) => {
    return lease?.link === link && link.undisturbedSince(lease.since);
  });
  const left = loop.counts.leftToExpire - ledger.leases.cancelledOf(link);
  if (held.length > 0 || isUndisturbed && left > 0) {
    const names = held.map(({ lease }) => lease!.handle).join(", ");
    ledger.broken("a graceful stop leaves nothing", `${host.name} left ${names}`);
  }
  const acknowledged = ledger.acknowledgedBy(link);
  if (isUndisturbed && report.counts.acknowledged !== acknowledged) {
    ledger.broken(
      "reports are true",
      `${host.name} reports ${report.counts.acknowledged} acknowledged of ${acknowledged}`,
    );
  }
}

/** Checks that all messages were handled that were sent before the last stop. */
export function checkEnd(ledger: Ledger, endedAt: number): void {
  for (const { queue, id, sentAt, job: { work } } of ledger.open) {
    if (sentAt > endedAt - SLOT_MS) continue;
    ledger.broken("handled in the end", `${queue}/${id} (${work}) is left`);
  }
}
