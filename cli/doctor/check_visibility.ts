import { MAX_VISIBILITY_MS } from "../../mod.ts";
import { type Finding, ok, problem, warning } from "./finding.ts";
import type { Settings } from "./settings.ts";
import { asFlag, spell, wholeSeconds } from "./times.ts";

/** Without leases: work that takes more of the visibility timeout than this is late on a bad day. */
const COMFORT = 0.5;

/** Whether a message stays hidden for as long as it is worked on. */
export function checkVisibility(settings: Settings): readonly Finding[] {
  const { visibilityTimeoutMs, leases } = settings;
  const hidden = `a message is hidden for ${spell(visibilityTimeoutMs)}`;
  if (visibilityTimeoutMs < 1 || visibilityTimeoutMs > MAX_VISIBILITY_MS) {
    return [problem("visibility", {
      found: hidden,
      why: visibilityTimeoutMs < 1
        ? "it is handed to somebody else at once, while it is worked on"
        : `no mailbox hides a message for longer than ${spell(MAX_VISIBILITY_MS)}`,
      change: "--visibility-timeout 5m, with leases that are kept",
    })];
  }
  if (!leases) return [withoutLeases(settings, `${hidden}, and leases are not kept`)];
  return [ok("visibility", `${hidden}, and for as long as it is worked on, since leases are kept`)];
}

function withoutLeases(settings: Settings, found: string): Finding {
  const { processingTimeMs, visibilityTimeoutMs } = settings;
  if (processingTimeMs === undefined) {
    return warning("visibility", {
      found,
      why: "work that takes longer is handed to somebody else in the middle of it",
      change: "--processing-time, to have it compared; or keep leases",
    });
  }
  const trouble = {
    found: `${found}; the longest work takes ${spell(processingTimeMs)}`,
    why: "work that takes longer is handed to somebody else in the middle of it, and done twice",
    change: `--visibility-timeout ${
      asFlag(wholeSeconds(processingTimeMs / COMFORT))
    }, or keep leases`,
  };
  if (processingTimeMs >= visibilityTimeoutMs) return problem("visibility", trouble);
  if (processingTimeMs > visibilityTimeoutMs * COMFORT) return warning("visibility", trouble);
  return ok("visibility", trouble.found);
}
