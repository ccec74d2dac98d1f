import { checkDrain } from "./check_drain.ts";
import { checkGrace } from "./check_grace.ts";
import { checkLease } from "./check_lease.ts";
import { checkPlatform } from "./check_platform.ts";
import { checkUnready } from "./check_unready.ts";
import { checkVisibility } from "./check_visibility.ts";
import { checkWatchdog } from "./check_watchdog.ts";
import type { Finding } from "./finding.ts";
import { probeEngine } from "./probe_engine.ts";
import { probePort } from "./probe_port.ts";
import { checkRuntime, factsOf } from "./check_runtime.ts";
import type { Settings } from "./settings.ts";

/** What follows from the settings alone. */
const CHECKS: readonly ((settings: Settings) => readonly Finding[])[] = [
  checkPlatform,
  checkGrace,
  checkUnready,
  checkDrain,
  checkVisibility,
  checkLease,
  checkWatchdog,
];

/** What has to be tried. None of them changes anything. */
const PROBES: readonly ((settings: Settings) => Promise<readonly Finding[]>)[] = [
  (settings) => Promise.resolve(checkRuntime(settings, factsOf(settings))),
  probePort,
  probeEngine,
];

/** Looks at everything. */
export async function examine(settings: Settings): Promise<readonly Finding[]> {
  const probed = await Promise.all(PROBES.map((probe) => probe(settings)));
  return [...CHECKS.flatMap((check) => check(settings)), ...probed.flat()];
}
