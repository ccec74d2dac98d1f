import { checkCount, checkDuration, checkInterval, show } from "../_checks.ts";
import { type Clock, systemClock } from "../clock.ts";
import { safeLog } from "../library_log.ts";
import type { Log } from "../log.ts";
import type { CircuitOptions } from "./_circuit_breaker.ts";
import type { RetryClass } from "./pool_call.ts";
import { fetchProbe } from "./_fetch_probe.ts";
import type { HealthProbe, WorkerAddress } from "./worker_address.ts";

/** Workers, by address or by URL alone. */
export type WorkerList = readonly (WorkerAddress | string)[];

/** Finds the workers there are now. */
export type Discover = (
  context: { readonly signal: AbortSignal },
) => WorkerList | Promise<WorkerList>;

/** Options of `WorkerPool`. */
export interface WorkerPoolOptions {
  /** The label of its metrics. @default {"workers"} */
  readonly name?: string;
  /** The workers, or how to find them. */
  readonly workers: WorkerList | Discover;
  /** How often they are looked for. @default {10_000} */
  readonly discoverEveryMs?: number;
  /** How often each is asked how it is doing. @default {1_000} */
  readonly healthEveryMs?: number;
  /** How long it may take to say so. @default {1_000} */
  readonly healthTimeoutMs?: number;
  /** A worker in trouble is asked ever less often, but at least this often. @default {10_000} */
  readonly healthBackoffMs?: number;
  /** How it is asked. @default {`GET /health/ready`; 200 is healthy, `freeSlots` in its JSON counts} */
  readonly probe?: HealthProbe;
  /** How long a request may take where the caller does not say. @default {30_000} */
  readonly deadlineMs?: number;
  /** With less time left than this there is no further attempt. @default {10_000} */
  readonly minRemainingMs?: number;
  /** How many attempts there are in all, by what the last one failed with. @default {3, 2 and 2} */
  readonly attempts?: Partial<Readonly<Record<RetryClass, number>>>;
  /**
   * A 503 whose JSON has one of these as `error.code` means that the worker has no room and did not begin
   * with the request. Code 5006 means that it is stopping. Any other 503 is an answer, and not retried.
   *
   * @default {[]}
   */
  readonly capacityCodes?: readonly (number | string)[];
  /** So many failures in a row take a worker out for so long. @default {5 and 10_000} */
  readonly circuit?: Partial<CircuitOptions>;
  /** What deadlines and polls are measured by. @default {systemClock} */
  readonly clock?: Clock;
  /** Hears of workers that come, go and fail. @default {libraryLog} */
  readonly log?: Log;
}

/** The options of a pool, checked and complete. */
export type PoolConfig =
  & Required<Omit<WorkerPoolOptions, "workers" | "attempts" | "circuit">>
  & {
    readonly discover: Discover;
    readonly attempts: Readonly<Record<RetryClass, number>>;
    readonly circuit: CircuitOptions;
  };

/** Refuses what makes no sense, and fills in the rest. */
export function poolConfig(options: WorkerPoolOptions): PoolConfig {
  const { workers, circuit = {}, attempts = {} } = options;
  if (typeof workers !== "function") addresses(workers);
  const limits = { terminating: 3, unreachable: 2, capacity: 2, ...attempts };
  for (const [name, limit] of Object.entries(limits)) checkCount(`attempts.${name}`, limit);
  return {
    name: options.name ?? "workers",
    discover: typeof workers === "function" ? workers : () => workers,
    discoverEveryMs: checkInterval("discoverEveryMs", options.discoverEveryMs ?? 10_000),
    healthEveryMs: checkInterval("healthEveryMs", options.healthEveryMs ?? 1_000),
    healthTimeoutMs: checkInterval("healthTimeoutMs", options.healthTimeoutMs ?? 1_000),
    healthBackoffMs: checkInterval("healthBackoffMs", options.healthBackoffMs ?? 10_000),
    probe: options.probe ?? fetchProbe,
    deadlineMs: checkDuration("deadlineMs", options.deadlineMs ?? 30_000),
    minRemainingMs: checkDuration("minRemainingMs", options.minRemainingMs ?? 10_000),
    attempts: limits,
    capacityCodes: codes(options.capacityCodes ?? []),
    circuit: {
      failures: checkCount("circuit.failures", circuit.failures ?? 5),
      openMs: checkDuration("circuit.openMs", circuit.openMs ?? 10_000),
    },
    clock: options.clock ?? systemClock,
    log: safeLog(options.log),
  };
}

function codes(list: readonly (number | string)[]): readonly (number | string)[] {
  const isCode = (code: unknown) => typeof code === "number" || typeof code === "string";
  if (!Array.isArray(list) || !list.every(isCode)) {
    throw new TypeError(`Invalid capacityCodes: expected numbers and strings, got ${show(list)}`);
  }
  return list;
}

/** The addresses of a list, each worker once. */
export function addresses(workers: WorkerList): readonly WorkerAddress[] {
  if (!Array.isArray(workers)) {
    throw new TypeError(`Invalid workers: expected a list or a function, got ${show(workers)}`);
  }
  const found = new Map<string, WorkerAddress>();
  for (const worker of workers as WorkerList) {
    const address = typeof worker === "string" ? { id: placeOf(worker), url: worker } : worker;
    placeOf(address.url);
    found.set(address.id, address);
  }
  return [...found.values()];
}

/** Where a URL leads to, without what opens the door there. */
function placeOf(url: string): string {
  if (!/^https?:/i.test(url) || !URL.canParse(url)) {
    throw new TypeError("Invalid URL of a worker: expected one like http://10.0.0.7:8080");
  }
  const { host, pathname } = new URL(url);
  return host + pathname.replace(/\/$/, "");
}
