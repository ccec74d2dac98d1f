import { graceFor, headroomMs } from "./budget.ts";
import { type Finding, ok, problem, warning } from "./finding.ts";
import type { Settings } from "./settings.ts";
import { asFlag, spell } from "./times.ts";

/** Whether a stop has ended before the platform kills. */
export function checkGrace(settings: Settings): readonly Finding[] {
  const { graceMs, shutdownTimeoutMs, visibilityTimeoutMs } = settings;
  const stop = `a stop may take ${spell(shutdownTimeoutMs)}`;
  if (graceMs === undefined) return [ok("grace", `${stop}, and nobody kills sooner`)];
  const most = graceMs - headroomMs(graceMs);
  if (shutdownTimeoutMs <= most) {
    return [ok("grace", `${stop} of the ${spell(graceMs)} that there are`)];
  }
  const change = changeOf(settings, most);
  if (shutdownTimeoutMs >= graceMs) {
    return [problem("grace", {
      found: `${stop}, and the process is killed after ${spell(graceMs)}`,
      why:
        "what is not given back by then comes back only when its visibility timeout has passed, " +
        `${spell(visibilityTimeoutMs)} later`,
      change,
    })];
  }
  return [warning("grace", {
    found: `${stop} of ${spell(graceMs)}, which leaves ${spell(graceMs - shutdownTimeoutMs)}`,
    why: "a hook before the signal, and the end of the process itself, take some of the grace too",
    change,
  })];
}

function changeOf({ platform, shutdownTimeoutMs }: Settings, mostMs: number): string {
  const shorter = `--shutdown-timeout ${asFlag(mostMs)}`;
  const longer = platform.setGrace?.(graceFor(shutdownTimeoutMs) / 1_000);
  return longer === undefined ? shorter : `${shorter}; or ${longer}`;
}
