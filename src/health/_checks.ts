import { settlesWithin } from "../_promises.ts";
import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import type { HealthSnapshot } from "../lifecycle/health_snapshot.ts";
import type { HealthCheck } from "./health_options.ts";

/** The result of one check. The reason is public; the error goes only to the log. */
export interface CheckResult {
  readonly name: string;
  readonly ok: boolean;
  readonly why?: string;
}

/** Returns the check of the group's readiness. */
export function groupChecks({ phase, paused, loops }: HealthSnapshot): readonly CheckResult[] {
  return [
    result("phase", phase === "running" && !paused, paused ? "paused" : phase),
    ...loops.map(({ name, ready, state }) => {
      return result(`loop ${name}`, ready || state === "failed", `${state}, not ready`);
    }),
  ];
}

/** Returns the check of the loops' heartbeats. */
export function liveChecks({ live, loops }: HealthSnapshot): readonly CheckResult[] {
  const silent = loops.map(({ name, heartbeatAgeMs = 0 }) => `${name} ${heartbeatAgeMs} ms`);
  return [result("heartbeats", live, `last heard of: ${silent.join(", ")}`)];
}

/** Runs the caller's checks concurrently. */
export async function callChecks(
  checks: Readonly<Record<string, HealthCheck>>,
  timeoutMs: number,
  clock: Clock,
  log: Log,
): Promise<readonly CheckResult[]> {
  return await Promise.all(
    Object.entries(checks).map(async ([name, check]) => {
      const abort = new AbortController();
      let why: string | undefined;
      const done = Promise.resolve().then(() => check({ signal: abort.signal })).then((answer) => {
        if (answer === false) why = "failed";
      }, (error) => {
        why = "failed";
        if (!abort.signal.aborted) log.warn(`the health check "${name}" failed`, { error });
      });
      const inTime = await settlesWithin(done, timeoutMs, clock);
      if (!inTime) {
        abort.abort();
        log.warn(`the health check "${name}" took longer than ${timeoutMs} ms`);
        why = `no answer within ${timeoutMs} ms`;
      }
      return result(name, why === undefined, why ?? "");
    }),
  );
}

function result(name: string, ok: boolean, why: string): CheckResult {
  return ok ? { name, ok } : { name, ok, why };
}
