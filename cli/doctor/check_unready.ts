import { timeoutFor } from "./budget.ts";
import { type Finding, ok, problem, warning } from "./finding.ts";
import type { Settings } from "./settings.ts";
import { asFlag, spell } from "./times.ts";

/** Whether the time between red readiness and the drain is of any use. */
export function checkUnready(settings: Settings): readonly Finding[] {
  const { platform, unreadyDelayMs, shutdownTimeoutMs, healthPort, processingTimeMs } = settings;
  const delay = spell(unreadyDelayMs);
  if (unreadyDelayMs === 0) {
    const served = platform.asksReadiness && healthPort !== undefined
      ? "; a service that takes requests needs some seconds, a worker of messages none"
      : "";
    return [ok("unready", `the drain begins with the signal${served}`)];
  }
  if (unreadyDelayMs >= shutdownTimeoutMs) {
    const enough = timeoutFor(processingTimeMs ?? unreadyDelayMs, unreadyDelayMs);
    return [problem("unready", {
      found: `the unready delay of ${delay} is all of the ${spell(shutdownTimeoutMs)} of a stop`,
      why: "it is a part of that time, so nothing is left for work; the group refuses to start",
      change: `--shutdown-timeout ${asFlag(enough)}, or a shorter --unready-delay`,
    })];
  }
  if (healthPort === undefined || !platform.asksReadiness) {
    const who = healthPort === undefined ? "nobody can ask for readiness" : "nobody asks there";
    return [warning("unready", {
      found: `an unready delay of ${delay}, and ${who}`,
      why: "its time is taken from the work in flight, and nobody notices",
      change: healthPort === undefined && platform.asksReadiness
        ? "--health-port 8080, or --unready-delay 0s"
        : "--unready-delay 0s",
    })];
  }
  return [ok("unready", `readiness is red for ${delay} before the drain begins`)];
}
