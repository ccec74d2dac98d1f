import { graceFor, headroomMs, timeoutFor, workTimeMs } from "./budget.ts";
import { type Finding, ok, problem } from "./finding.ts";
import type { Settings } from "./settings.ts";
import { asFlag, spell } from "./times.ts";

/** Whether work in flight can end within a stop. */
export function checkDrain(settings: Settings): readonly Finding[] {
  const { shutdownTimeoutMs, unreadyDelayMs, processingTimeMs } = settings;
  if (unreadyDelayMs > 0 && unreadyDelayMs >= shutdownTimeoutMs) return []; // told already
  const workMs = workTimeMs(shutdownTimeoutMs, unreadyDelayMs);
  const reserve = spell(shutdownTimeoutMs - unreadyDelayMs - workMs);
  const sum = `${spell(unreadyDelayMs)} unready + ${spell(workMs)} for work + ${reserve} reserve ` +
    `= ${spell(shutdownTimeoutMs)}`;
  if (processingTimeMs === undefined) {
    return [ok("drain", `${sum}; --processing-time says whether that is enough`)];
  }
  const longest = `the longest work takes ${spell(processingTimeMs)}`;
  if (processingTimeMs <= workMs) return [ok("drain", `${sum}; ${longest}`)];
  return [problem("drain", {
    found: `${longest}, and a stop leaves it ${spell(workMs)}: ${sum}`,
    why: "it is cancelled then and given back: at every stop somebody begins it anew",
    change: `${
      changeOf(settings, processingTimeMs)
    }; or save checkpoints, and end when \`signal\` aborts`,
  })];
}

function changeOf(settings: Settings, processingTimeMs: number): string {
  const { graceMs, platform, unreadyDelayMs } = settings;
  const neededMs = timeoutFor(processingTimeMs, unreadyDelayMs);
  const longer = `--shutdown-timeout ${asFlag(neededMs)}`;
  if (graceMs === undefined || neededMs <= graceMs - headroomMs(graceMs)) return longer;
  const grace = platform.setGrace?.(graceFor(neededMs) / 1_000);
  return grace === undefined
    ? `shorter work, since ${platform.title} never gives more than ${spell(graceMs)}`
    : `${longer} with ${grace}`;
}
