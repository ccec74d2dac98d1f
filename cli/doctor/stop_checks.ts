// Checks of the time that a shutdown has: platform, grace period, unready delay and drain.

import { reserveOf } from "../../src/lifecycle/deadline.ts";
import { durationText, type Finding, ok, problem, warning, wholeSeconds } from "./finding.ts";
import { durationOption, optionName, type Settings } from "./settings.ts";

/**
 * Returns how long handlers may run before the group cancels them. It computes as the group does:
 * the unready delay is part of the timeout, and each stage leaves a reserve to the next. It assumes
 * loops of one stop order.
 */
export function workTimeMs(shutdownTimeoutMs: number, unreadyDelayMs: number): number {
  const loopsMs = shutdownTimeoutMs - unreadyDelayMs - reserveOf(shutdownTimeoutMs);
  return Math.max(0, loopsMs - reserveOf(Math.max(0, loopsMs)));
}

/** Returns the shortest shutdown timeout, in whole seconds, that leaves `workMs` for handlers. */
export function timeoutFor(workMs: number, unreadyDelayMs: number): number {
  let timeoutMs = wholeSeconds(workMs + unreadyDelayMs);
  while (workTimeMs(timeoutMs, unreadyDelayMs) < workMs) timeoutMs += 1_000;
  return timeoutMs;
}

/** Returns what should be left of a grace period for pre-stop hooks and the exit of the process. */
export function headroomMs(graceMs: number): number {
  return Math.min(2_000, graceMs / 10);
}

/** Returns the shortest grace period, in whole seconds, that leaves headroom after a shutdown. */
export function graceFor(shutdownTimeoutMs: number): number {
  let graceMs = wholeSeconds(shutdownTimeoutMs);
  while (graceMs - headroomMs(graceMs) < shutdownTimeoutMs) graceMs += 1_000;
  return graceMs;
}

/** Reports the platform and the grace period that the other checks assume. */
export function checkPlatform({ platform, detectedBy, graceMs }: Settings): readonly Finding[] {
  const { title, signal } = platform;
  if (graceMs === undefined) {
    return [ok("platform", "none detected, so no grace period is known; set --platform")];
  }
  const sender = platform.name === "none" ? "the supervisor" : title;
  const source = graceMs === platform.graceMs ? "" : " (--grace)";
  const how = detectedBy === undefined ? "" : ` (${detectedBy} is set)`;
  return [
    ok(
      "platform",
      `${sender} sends ${signal} and kills after ${durationText(graceMs)}${source}${how}`,
    ),
  ];
}

/** Checks that a shutdown ends before the platform kills the process. */
export function checkGrace(settings: Settings): readonly Finding[] {
  const { graceMs, shutdownTimeoutMs, visibilityTimeoutMs } = settings;
  const shutdown = `a shutdown may take ${durationText(shutdownTimeoutMs)}`;
  if (graceMs === undefined) return [ok("grace", `${shutdown}; no grace period is known`)];
  const mostMs = graceMs - headroomMs(graceMs);
  if (shutdownTimeoutMs <= mostMs) {
    return [ok("grace", `${shutdown} of a grace period of ${durationText(graceMs)}`)];
  }
  const change = graceChange(settings, mostMs);
  if (shutdownTimeoutMs >= graceMs) {
    return [problem("grace", {
      found: `${shutdown}, but the process is killed after ${durationText(graceMs)}`,
      why:
        "messages that are not released by then reappear only when their visibility timeout of " +
        `${durationText(visibilityTimeoutMs)} passes`,
      change,
    })];
  }
  const leftMs = graceMs - shutdownTimeoutMs;
  return [warning("grace", {
    found: `${shutdown} of ${durationText(graceMs)}, which leaves ${durationText(leftMs)}`,
    why: "pre-stop hooks and the exit of the process take part of the grace period too",
    change,
  })];
}

function graceChange(settings: Settings, mostMs: number): string {
  const { platform, shutdownTimeoutMs } = settings;
  const shorter = durationOption(settings, "shutdown-timeout", mostMs);
  const longer = platform.setGrace?.(graceFor(shutdownTimeoutMs) / 1_000);
  return longer === undefined ? shorter : `${shorter}; or ${longer}`;
}

/** Checks that the unready delay has an effect and leaves time for work. */
export function checkUnready(settings: Settings): readonly Finding[] {
  const { platform, unreadyDelayMs, shutdownTimeoutMs, healthPort, processingTimeMs } = settings;
  const delay = durationText(unreadyDelayMs);
  if (unreadyDelayMs === 0) {
    const hint = platform.probesReadiness && healthPort !== undefined
      ? "; a service that takes requests needs a few seconds, a message worker none"
      : "";
    return [ok("unready", `draining starts at the signal${hint}`)];
  }
  if (unreadyDelayMs >= shutdownTimeoutMs) {
    const enough = timeoutFor(processingTimeMs ?? unreadyDelayMs, unreadyDelayMs);
    return [problem("unready", {
      found: `the unready delay of ${delay} uses up the shutdown timeout of ` +
        durationText(shutdownTimeoutMs),
      why:
        "the delay is part of the timeout, so no time is left for work; the group will not start",
      change: `${durationOption(settings, "shutdown-timeout", enough)}, or a shorter ` +
        optionName(settings, "unready-delay"),
    })];
  }
  if (healthPort === undefined || !platform.probesReadiness) {
    const noDelay = durationOption(settings, "unready-delay", 0);
    const because = healthPort === undefined
      ? "there is no health port"
      : "the platform does not probe readiness";
    return [warning("unready", {
      found: `the unready delay is ${delay}, but ${because}`,
      why: "the delay has no effect and takes time from the work in flight",
      change: healthPort === undefined && platform.probesReadiness
        ? `${optionName(settings, "health-port")} 8080, or ${noDelay}`
        : noDelay,
    })];
  }
  return [ok("unready", `the group is not ready for ${delay} before draining starts`)];
}

/** Checks that the longest handler can finish during a shutdown. */
export function checkDrain(settings: Settings): readonly Finding[] {
  const { shutdownTimeoutMs, unreadyDelayMs, processingTimeMs } = settings;
  if (unreadyDelayMs > 0 && unreadyDelayMs >= shutdownTimeoutMs) return []; // see checkUnready
  const workMs = workTimeMs(shutdownTimeoutMs, unreadyDelayMs);
  const reserve = durationText(shutdownTimeoutMs - unreadyDelayMs - workMs);
  const sum = `${durationText(unreadyDelayMs)} unready + ${durationText(workMs)} for work + ` +
    `${reserve} reserve = ${durationText(shutdownTimeoutMs)}`;
  if (processingTimeMs === undefined) {
    return [ok("drain", `${sum}; set --processing-time to check that this is enough`)];
  }
  const longest = `the longest handler takes ${durationText(processingTimeMs)}`;
  if (processingTimeMs <= workMs) return [ok("drain", `${sum}; ${longest}`)];
  return [problem("drain", {
    found: `${longest}, but a shutdown leaves it ${durationText(workMs)}: ${sum}`,
    why: "the handler is cancelled and its message released, so each shutdown repeats its work",
    change: `${
      drainChange(settings, processingTimeMs)
    }; or save checkpoints, and return when \`signal\` aborts`,
  })];
}

/** Checks the timeout of a loop's own stop, which is part of that of its group. */
export function checkOwnTimeout(settings: Settings): readonly Finding[] {
  const { ownTimeoutMs, shutdownTimeoutMs, processingTimeMs } = settings;
  if (ownTimeoutMs === undefined) return [];
  const own = `the loop's own timeout is ${durationText(ownTimeoutMs)}`;
  if (ownTimeoutMs > shutdownTimeoutMs) {
    return [warning("drain", {
      found: `${own}, more than the ${durationText(shutdownTimeoutMs)} of the group`,
      why: "the group ends the stop of all its loops, so the rest has no effect",
      change: `\`shutdownTimeoutMs: ${timeoutFor(ownTimeoutMs, 0)}\` of the group, or less here`,
    })];
  }
  const workMs = Math.max(0, ownTimeoutMs - reserveOf(ownTimeoutMs));
  if (processingTimeMs === undefined || processingTimeMs <= workMs) return [ok("drain", own)];
  return [problem("drain", {
    found: `${own}, and the longest handler takes ${durationText(processingTimeMs)}`,
    why: "the handler is cancelled and its message released, so each shutdown repeats its work",
    change: `\`shutdownTimeoutMs: ${timeoutFor(processingTimeMs, 0)}\` of the loop`,
  })];
}

function drainChange(settings: Settings, processingTimeMs: number): string {
  const { graceMs, platform, unreadyDelayMs } = settings;
  const neededMs = timeoutFor(processingTimeMs, unreadyDelayMs);
  const longer = durationOption(settings, "shutdown-timeout", neededMs);
  if (graceMs === undefined || neededMs <= graceMs - headroomMs(graceMs)) return longer;
  const grace = platform.setGrace?.(graceFor(neededMs) / 1_000);
  return grace === undefined
    ? `shorter handlers, since ${platform.title} never gives more than ${durationText(graceMs)}`
    : `${longer} with ${grace}`;
}
