import { type Finding, ok, problem, warning } from "./finding.ts";
import type { Settings } from "./settings.ts";
import { spell, wholeSeconds } from "./times.ts";

/** At this share of the threshold a silent loop is not ready any more. */
const STALE_SHARE = 0.5;

/** Whether the watchdog would take long work for a stuck loop. */
export function checkWatchdog(settings: Settings): readonly Finding[] {
  const { watchdogThresholdMs, processingTimeMs = 0 } = settings;
  if (watchdogThresholdMs === null) {
    return [warning("watchdog", {
      found: "the watchdog is off",
      why: "a loop that hangs, or a blocked event loop, stays so until somebody notices",
      change: "leave `watchdogThresholdMs` at its default, 12 min",
    })];
  }
  const silence = `silence for ${spell(watchdogThresholdMs)} ends the process`;
  const staleMs = watchdogThresholdMs * STALE_SHARE;
  if (processingTimeMs <= staleMs) return [ok("watchdog", silence)];
  const killed = processingTimeMs >= watchdogThresholdMs;
  return [(killed ? problem : warning)("watchdog", {
    found: `${silence}, and the longest work takes ${spell(processingTimeMs)}`,
    why: killed
      ? "when every slot is taken by such work, the process is killed in the middle of it"
      : `when every slot is taken by such work, readiness is red after ${spell(staleMs)}`,
    change: `call \`beat()\` in the handler now and then, or \`watchdogThresholdMs: ${
      wholeSeconds(processingTimeMs / STALE_SHARE)
    }\` of the group`,
  })];
}
