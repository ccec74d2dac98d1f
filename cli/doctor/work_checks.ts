// Checks of the time that a handler has: visibility timeout, lease extension and watchdog.

import { MAX_VISIBILITY_MS } from "../../src/engine.ts";
import { DEFAULT_LEASE_INTERVAL_MS, LEASE_INTERVAL_SHARE } from "../../src/lease/lease_extender.ts";
import { durationText, type Finding, ok, problem, warning, wholeSeconds } from "./finding.ts";
import { durationOption, optionName, type Settings } from "./settings.ts";

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
      change: `${durationOption(settings, "visibility-timeout", 300_000)}, with lease extension`,
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
    change: `${durationOption(settings, "visibility-timeout", safeMs)}, or extend leases`,
  };
  if (processingTimeMs >= visibilityTimeoutMs) return problem("visibility", advice);
  if (processingTimeMs > visibilityTimeoutMs * SAFE_SHARE) return warning("visibility", advice);
  return ok("visibility", advice.found);
}

/** How long a call to an engine may hang before it fails. */
const CALL_TIMEOUT_MS = 5_000;

/** Checks that leases are extended in time, also when the first attempt fails. */
export function checkLease(settings: Settings): readonly Finding[] {
  const { leases, leaseIntervalMs, visibilityTimeoutMs, adaptive } = settings;
  if (!leases || visibilityTimeoutMs < 1) return [];
  const mostMs = visibilityTimeoutMs * LEASE_INTERVAL_SHARE;
  const found = (intervalMs: number) =>
    `leases of ${durationText(visibilityTimeoutMs)} are extended every ${durationText(intervalMs)}`;
  // Without a module it is not known whether `adaptive` shortens the interval.
  if (leaseIntervalMs !== undefined && leaseIntervalMs > mostMs && adaptive !== true) {
    const unless = adaptive === false ? "" : ", unless `adaptive` is on, which is the default";
    const late = leaseIntervalMs >= visibilityTimeoutMs;
    return [(late ? problem : warning)("lease", {
      found: found(leaseIntervalMs),
      why: late
        ? `another worker has the message by then${unless}`
        : `one failed extension loses the message${unless}`,
      change: `${durationOption(settings, "lease-interval", Math.floor(mostMs))} or less, ` +
        `${LEASE_INTERVAL_SHARE * 100} % of the visibility timeout`,
    })];
  }
  const intervalMs = Math.min(leaseIntervalMs ?? DEFAULT_LEASE_INTERVAL_MS, mostMs);
  if (visibilityTimeoutMs - mostMs < CALL_TIMEOUT_MS) {
    return [warning("lease", {
      found: found(intervalMs),
      why: `a call that hangs fails after ${durationText(CALL_TIMEOUT_MS)}, which leaves no time ` +
        "for a second attempt",
      change: `${durationOption(settings, "visibility-timeout", 10_000)} or more`,
    })];
  }
  return [ok("lease", found(intervalMs))];
}

/** Tells how many messages a loop holds, and checks those that it receives ahead. */
export function checkConcurrency(settings: Settings): readonly Finding[] {
  const { concurrency, prefetch = "auto", leases, processingTimeMs, visibilityTimeoutMs } =
    settings;
  if (concurrency === undefined) return [];
  const found = `${concurrency} at a time, ` +
    (prefetch === "auto" ? "up to 20 ms of work received ahead" : `${prefetch} received ahead`);
  // With "auto", the loop releases messages that have waited 100 ms.
  if (prefetch === "auto") return [ok("concurrency", found)];
  // The last message that was received ahead waits for all handlers before it.
  const waitMs = processingTimeMs === undefined
    ? 0
    : processingTimeMs * (1 + Math.ceil(prefetch / concurrency));
  if (leases || prefetch === 0 || waitMs < visibilityTimeoutMs) {
    return [ok("concurrency", found)];
  }
  return [problem("concurrency", {
    found: `${found}, and leases are not extended: the last one ends after ${durationText(waitMs)}`,
    why: `its lease of ${durationText(visibilityTimeoutMs)} has expired then, and another worker ` +
      "receives it",
    change: `${optionName(settings, "prefetch")} 0, or extend leases`,
  })];
}

/** Checks when messages that fail are dead-lettered. */
export function checkDeadLetter(settings: Settings): readonly Finding[] {
  const { maxDeliveries } = settings;
  if (maxDeliveries === undefined) return [];
  if (maxDeliveries === false) {
    return [warning("dead-letter", {
      found: "messages that fail are never dead-lettered",
      why: "a message that always fails is retried for ever",
      change: "`deadLetter: { maxDeliveries: 10 }` of the loop",
    })];
  }
  if (maxDeliveries > 1) {
    return [ok("dead-letter", `a message is dead-lettered after ${maxDeliveries} failures`)];
  }
  return [warning("dead-letter", {
    found: "a message is dead-lettered after its first failure",
    why: "a failure that a retry would solve needs an operator",
    change: `${optionName(settings, "max-deliveries")} of 2 or more`,
  })];
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
