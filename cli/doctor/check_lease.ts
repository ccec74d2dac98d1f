import { type Finding, ok, problem, warning } from "./finding.ts";
import type { Settings } from "./settings.ts";
import { asFlag, spell } from "./times.ts";

/** What `LeaseExtender` takes of the visibility timeout at the most. */
const SHARE = 0.4;
const DEFAULT_INTERVAL_MS = 60_000;
/** How long a call to an engine may hang before it fails. */
const CALL_MS = 5_000;

/** Whether leases are extended in time, also when the first attempt fails. */
export function checkLease(settings: Settings): readonly Finding[] {
  const { leases, leaseIntervalMs, visibilityTimeoutMs } = settings;
  if (!leases || visibilityTimeoutMs < 1) return [];
  const mostMs = visibilityTimeoutMs * SHARE;
  const intervalMs = leaseIntervalMs ?? DEFAULT_INTERVAL_MS;
  const of = `of a visibility timeout of ${spell(visibilityTimeoutMs)}`;
  if (leaseIntervalMs !== undefined && leaseIntervalMs > mostMs) {
    const late = leaseIntervalMs >= visibilityTimeoutMs;
    return [(late ? problem : warning)("lease", {
      found: `leases are to be extended every ${spell(intervalMs)} ${of}`,
      why: late
        ? "the message is somebody else's by then, but for `adaptive`, which is on by default"
        : "one failed extension loses the message; the loop extends more often, unless " +
          "`adaptive` is off",
      change: `--lease-interval ${asFlag(Math.floor(mostMs))} at the most, 40 % of it`,
    })];
  }
  if (visibilityTimeoutMs - mostMs < CALL_MS) {
    return [warning("lease", {
      found: `leases are extended every ${spell(Math.min(intervalMs, mostMs))} ${of}`,
      why: `a call that hangs fails after ${spell(CALL_MS)}, and then there is no time for another`,
      change: `--visibility-timeout ${asFlag(10_000)} or more`,
    })];
  }
  return [ok("lease", `leases are extended every ${spell(Math.min(intervalMs, mostMs))} ${of}`)];
}
