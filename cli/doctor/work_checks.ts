// Checks of the time that a handler has: visibility timeout, lease extension and watchdog.

import { MAX_VISIBILITY_MS } from "../../src/engine.ts";
import { DEFAULT_LEASE_INTERVAL_MS, LEASE_INTERVAL_SHARE } from "../../src/lease/lease_extender.ts";
import {
  durationText,
  type Finding,
  flagValue,
  ok,
  problem,
  warning,
  wholeSeconds,
} from "./finding.ts";
import type { Settings } from "./settings.ts";

/** Without lease extension a handler should need at most this share of the visibility timeout. */
const SAFE_SHARE = 0.5;

/** Checks that a message stays hidden while its handler runs. */
export function checkVisibility(settings: Settings): readonly Finding[] {
  const { visibilityTimeoutMs, leases } = settings;
  const found = `the visibility timeout is ${durationText(visibilityTimeoutMs)}`;
  if (visibilityTimeoutMs < 1 || visibilityTimeoutMs > MAX_VISIBILITY_MS) {
    return [problem("visibility", {
      found,
      why: visibilityTimeoutMs < 1
        ? "another worker receives the message at once, while its handler runs"
        : `no mailbox hides a message for longer than ${durationText(MAX_VISIBILITY_MS)}`,
      change: "--visibility-timeout 5m, with lease extension",
    })];
  }
  if (!leases) return [withoutLeases(settings, `${found}, and leases are not extended`)];
  return [ok("visibility", `${found}; leases are extended while a handler runs`)];
}

function withoutLeases(settings: Settings, found: string): Finding {
  const { processingTimeMs, visibilityTimeoutMs } = settings;
  const why = "another worker receives and repeats a message whose handler takes longer";
  if (processingTimeMs === undefined) {
    const change = "set --processing-time to compare them; or extend leases";
    return warning("visibility", { found, why, change });
  }
  const safeMs = wholeSeconds(processingTimeMs / SAFE_SHARE);
  const advice = {
    found: `${found}; the longest handler takes ${durationText(processingTimeMs)}`,
    why,
    change: `--visibility-timeout ${flagValue(safeMs)}, or extend leases`,
  };
  if (processingTimeMs >= visibilityTimeoutMs) return problem("visibility", advice);
  if (processingTimeMs > visibilityTimeoutMs * SAFE_SHARE) return warning("visibility", advice);
  return ok("visibility", advice.found);
}

/** How long a call to an engine may hang before it fails. */
const CALL_TIMEOUT_MS = 5_000;

/** Checks that leases are extended in time, also when the first attempt fails. */
export function checkLease(settings: Settings): readonly Finding[] {
  const { leases, leaseIntervalMs, visibilityTimeoutMs } = settings;
  if (!leases || visibilityTimeoutMs < 1) return [];
  const mostMs = visibilityTimeoutMs * LEASE_INTERVAL_SHARE;
  const found = (intervalMs: number) =>
    `leases of ${durationText(visibilityTimeoutMs)} are extended every ${durationText(intervalMs)}`;
  if (leaseIntervalMs !== undefined && leaseIntervalMs > mostMs) {
    const late = leaseIntervalMs >= visibilityTimeoutMs;
    return [(late ? problem : warning)("lease", {
      found: found(leaseIntervalMs),
      why: late
        ? "another worker has the message by then, unless `adaptive` is on, which is the default"
        : "one failed extension loses the message, unless `adaptive` is on, which is the default",
      change: `--lease-interval ${flagValue(Math.floor(mostMs))} or less, ` +
        `${LEASE_INTERVAL_SHARE * 100} % of the visibility timeout`,
    })];
  }
  const intervalMs = Math.min(leaseIntervalMs ?? DEFAULT_LEASE_INTERVAL_MS, mostMs);
  if (visibilityTimeoutMs - mostMs < CALL_TIMEOUT_MS) {
    return [warning("lease", {
      found: found(intervalMs),
      why: `a call that hangs fails after ${durationText(CALL_TIMEOUT_MS)}, which leaves no time ` +
        "for a second attempt",
      change: `--visibility-timeout ${flagValue(10_000)} or more`,
    })];
  }
  return [ok("lease", found(intervalMs))];
}

/** The share of the watchdog threshold after which a silent loop is not ready. */
const STALE_SHARE = 0.5;

/** Checks that the watchdog does not mistake a long handler for a hung loop. */
export function checkWatchdog(settings: Settings): readonly Finding[] {
  const { watchdogThresholdMs, processingTimeMs = 0 } = settings;
  if (watchdogThresholdMs === false) {
    return [warning("watchdog", {
      found: "the watchdog is off",
      why: "a hung loop or a blocked event loop stays that way until an operator notices",
      change: "remove `watchdogThresholdMs: false`; the default is 12 min",
    })];
  }
  const found = `a loop that is silent for ${durationText(watchdogThresholdMs)} ends the process`;
  const staleMs = watchdogThresholdMs * STALE_SHARE;
  if (processingTimeMs <= staleMs) return [ok("watchdog", found)];
  const killed = processingTimeMs >= watchdogThresholdMs;
  const effect = killed
    ? "the process is killed while they run"
    : `the group is not ready after ${durationText(staleMs)}`;
  return [(killed ? problem : warning)("watchdog", {
    found: `${found}, and the longest handler takes ${durationText(processingTimeMs)}`,
    why: `when such handlers take every slot, ${effect}`,
    change: `call \`beat()\` in the handler, or set \`watchdogThresholdMs: ${
      wholeSeconds(processingTimeMs / STALE_SHARE)
    }\` of the group`,
  })];
}
