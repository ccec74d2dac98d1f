// The probes: liveness and readiness, as checks and as the answers to requests.

import { settlesWithin } from "../_promises.ts";
import type { Clock } from "../clock.ts";
import type { HealthSnapshot } from "../lifecycle/health_snapshot.ts";
import type { Log } from "../log.ts";
import type { PlainResponse } from "../runtime.ts";
import type { HealthOptions, Inspectable } from "./health_options.ts";

/** The header of responses that are valid only for a moment. */
export const NO_STORE = { "cache-control": "no-store" };

/** Answers a probe, with one line per check or with the overall result. */
type Probe = (verbose: boolean) => PlainResponse | Promise<PlainResponse>;

/** The options for calling checks. */
interface CheckOptions {
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly log: Log;
}

/** Returns the probes by path. Without checks in the options, they answer synchronously. */
export function makeProbes(
  group: Inspectable,
  checks: HealthOptions["checks"] = {},
  options: CheckOptions,
): ReadonlyMap<string, Probe> {
  const others = Object.entries(checks);
  const ready: Probe = (verbose) => {
    const own = readyChecks(group.health());
    // The checks of the options cannot change the answer when the group itself is not ready.
    if (others.length === 0 || !verbose && !own.every(({ ok }) => ok)) {
      return probeResponse(own, verbose);
    }
    return Promise.all(others.map(([name, check]) => callCheck(name, check, options)))
      .then((all) => probeResponse([...own, ...all], verbose));
  };
  return new Map([
    ["/health/live", (verbose: boolean) => probeResponse(liveChecks(group.health()), verbose)],
    ["/health/ready", ready],
  ]);
}

/** The result of one check. The reason is public; the error goes only to the log. */
interface CheckResult {
  readonly name: string;
  readonly ok: boolean;
  readonly why?: string;
}

function readyChecks({ phase, paused, loops }: HealthSnapshot): readonly CheckResult[] {
  return [
    result("phase", phase === "running" && !paused, paused ? "paused" : phase),
    ...loops.map(({ name, ready, state }) => {
      return result(`loop ${name}`, ready || state === "failed", `${state}, not ready`);
    }),
  ];
}

function liveChecks({ live, loops }: HealthSnapshot): readonly CheckResult[] {
  const ages = loops.map(({ name, heartbeatAgeMs = 0 }) => `${name} ${heartbeatAgeMs} ms`);
  return [result("heartbeats", live, `last heartbeats: ${ages.join(", ")}`)];
}

async function callCheck(
  name: string,
  check: NonNullable<HealthOptions["checks"]>[string],
  { timeoutMs, clock, log }: CheckOptions,
): Promise<CheckResult> {
  const abort = new AbortController();
  let why: string | undefined;
  const done = Promise.resolve().then(() => check({ signal: abort.signal })).then((answer) => {
    if (answer === false) why = "failed";
  }, (error) => {
    why = "failed";
    if (!abort.signal.aborted) log.warn("health check failed", { check: name, error });
  });
  if (!await settlesWithin(done, timeoutMs, clock)) {
    abort.abort();
    log.warn("health check timed out", { check: name, timeoutMs });
    why = `no answer within ${timeoutMs} ms`;
  }
  return result(name, why === undefined, why ?? "");
}

function result(name: string, ok: boolean, why: string): CheckResult {
  return ok ? { name, ok } : { name, ok, why };
}

function probeResponse(results: readonly CheckResult[], verbose: boolean): PlainResponse {
  const healthy = results.every(({ ok }) => ok);
  if (!verbose) return healthy ? HEALTHY : UNHEALTHY;
  const lines = results.map(({ name, ok, why }) => ok ? `ok ${name}` : `FAILED ${name}: ${why}`);
  const headers = { ...NO_STORE, "content-type": "text/plain;charset=UTF-8" };
  return { status: healthy ? 200 : 503, headers, body: `${lines.join("\n")}\n` };
}

const JSON_HEADERS = { ...NO_STORE, "content-type": "application/json" };
const HEALTHY = { status: 200, headers: JSON_HEADERS, body: '{"status":"healthy"}' };
const UNHEALTHY = { status: 503, headers: JSON_HEADERS, body: '{"status":"unhealthy"}' };
