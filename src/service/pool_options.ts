import { checkCount, checkDuration, checkInterval, parseUrl, show } from "../_checks.ts";
import { type Clock, systemClock } from "../clock.ts";
import { safeLog } from "../library_log.ts";
import type { Log } from "../log.ts";

/** The id and URL of a worker. */
export interface WorkerAddress {
  /** The name in logs, spans and events, unique in its pool. */
  readonly id: string;
  /** The base URL of its service, as in `http://10.0.0.7:8080`. */
  readonly url: string;
}

/** The health of a worker. */
export interface WorkerHealth {
  /** False when the worker should get no requests. */
  readonly healthy: boolean;
  /** How many more requests the worker accepts. @default {derived from the requests in flight} */
  readonly freeSlots?: number;
}

/** Checks the health of a worker. A worker is unhealthy when this rejects or times out. */
export type HealthProbe = (
  worker: WorkerAddress,
  context: { readonly signal: AbortSignal },
) => Promise<WorkerHealth | boolean>;

/** Workers, by address or by URL alone. */
export type WorkerList = readonly (WorkerAddress | string)[];

/** Returns the current workers. */
export type Discover = (
  context: { readonly signal: AbortSignal },
) => WorkerList | Promise<WorkerList>;

/** Whether a worker gets requests: all, none, or one to test it. */
export type CircuitState = "closed" | "open" | "half_open";

/** When a circuit opens, and how long it stays open. */
export interface CircuitOptions {
  /** The number of consecutive failures that opens the circuit. */
  readonly failures: number;
  /** How long the circuit stays open, in milliseconds. */
  readonly openMs: number;
}

/** Options of `WorkerPool`. */
export interface WorkerPoolOptions {
  /** The label of its metrics. @default {"workers"} */
  readonly name?: string;
  /** The workers, or a function that discovers them. */
  readonly workers: WorkerList | Discover;
  /** How often the pool calls `workers` when it is a function. @default {10_000} */
  readonly discoverEveryMs?: number;
  /** How often the pool checks the health of each worker. @default {1_000} */
  readonly healthEveryMs?: number;
  /** How long a health check may take. @default {1_000} */
  readonly healthTimeoutMs?: number;
  /** The longest pause between health checks of an unhealthy worker. @default {10_000} */
  readonly healthBackoffMs?: number;
  /** Checks the health of a worker. @default {`GET /health/ready`; 200 is healthy, its JSON may have `freeSlots`} */
  readonly probe?: HealthProbe;
  /** The deadline of a request without its own. @default {30_000} */
  readonly deadlineMs?: number;
  /** The pool makes no further attempt with less time left than this. @default {10_000} */
  readonly minRemainingMs?: number;
  /** The maximum number of attempts, by the last failure. @default {3, 2 and 2} */
  readonly attempts?: Partial<Readonly<Record<RetryClass, number>>>;
  /**
   * A 503 whose JSON has one of these as `error.code` means that the worker is at capacity and did not begin
   * the request. Code 5006 means that it is stopping. The pool does not retry any other 503.
   *
   * @default {[]}
   */
  readonly capacityCodes?: readonly (number | string)[];
  /** When the circuit of a worker opens, and for how long. @default {5 failures and 10_000 ms} */
  readonly circuit?: Partial<CircuitOptions>;
  /** The source of time and timers. @default {systemClock} */
  readonly clock?: Clock;
  /** Where changes and failures of workers are logged. @default {libraryLog} */
  readonly log?: Log;
}

/** Failures after which the pool may try another worker. */
export type RetryClass = "terminating" | "unreachable" | "capacity";

/** The outcome of an attempt. */
export type AttemptOutcome = "answered" | RetryClass | "failed" | "deadline" | "aborted";

/** The context of a call to a worker. */
export interface CallContext {
  /** Aborts when the caller aborts or the deadline passes. */
  readonly signal: AbortSignal;
  /** The number of the attempt, from 1. */
  readonly attempt: number;
  /** Milliseconds until the caller's deadline. */
  readonly remainingMs: number;
  /** True when no worker was healthy, and the pool chose an unhealthy one. */
  readonly noneHealthy: boolean;
  /** The headers that propagate the trace to the worker. */
  readonly traceHeaders: Readonly<Record<string, string>>;
  /**
   * Keeps the attempt in flight after the call has returned, until the returned function is called or
   * `signal` aborts.
   */
  readonly hold: () => () => void;
}

/**
 * Sends a request to one worker. The pool tries another worker when it rejects with a `TerminatingError`,
 * an `UnreachableError` or a `CapacityError`. With `started: true` on the error it does so only for an
 * `idempotent` request.
 */
export type PoolCall<T> = (worker: WorkerAddress, context: CallContext) => Promise<T>;

/** Options of one request. */
export interface PoolRequestOptions {
  /** How long all attempts together may take, in milliseconds. @default {the pool's} */
  readonly deadlineMs?: number;
  /** Binds the request to the worker of this session. It is never retried on another worker. */
  readonly sessionId?: string;
  /** Binds the request to this worker, where the caller knows which one has the session. */
  readonly workerId?: string;
  /**
   * Whether a worker may execute the request again after another one may have. Without it a request is
   * retried only when it is certain that no worker has begun with it.
   *
   * @default {true for GET, HEAD, OPTIONS, TRACE and with a header `Idempotency-Key`, false otherwise}
   */
  readonly idempotent?: boolean;
  /** The ids of workers to skip. */
  readonly exclude?: Iterable<string>;
  /** Cancels the request when it aborts. */
  readonly signal?: AbortSignal;
}

/** Emitted after each attempt. */
export interface AttemptEvent {
  /** The id of the worker. */
  readonly worker: string;
  /** The number of the attempt, from 1. */
  readonly attempt: number;
  /** How the attempt ended. */
  readonly outcome: AttemptOutcome;
  /** How long the attempt took, in milliseconds. */
  readonly ms: number;
  /** Milliseconds until the caller's deadline. */
  readonly remainingMs: number;
  /** True when the pool tries another worker next. */
  readonly retried: boolean;
  /** True when no worker was healthy, and the pool chose an unhealthy one. */
  readonly noneHealthy: boolean;
  /** The error of a failed attempt. */
  readonly error?: unknown;
}

/** Emitted when a worker joins, leaves or changes its health, or its circuit opens. */
export interface WorkerEvent {
  /** The id of the worker. */
  readonly worker: string;
  /** What changed. */
  readonly change: "joined" | "left" | "healthy" | "unhealthy" | "circuit_opened";
}

/** The events of a pool, by name. */
export interface PoolEvents {
  /** An attempt has ended. */
  readonly attempt: AttemptEvent;
  /** A worker has changed. */
  readonly worker: WorkerEvent;
}

/** Returns true when a request is bound to one worker, so that it is sent once. */
export function isBound({ sessionId, workerId }: PoolRequestOptions): boolean {
  return sessionId !== undefined || workerId !== undefined;
}

/** Returns the URL of a path of a worker's service. */
export function workerUrl(root: string, path: string): string {
  return root.replace(/\/$/, "") + path;
}

/** The options of a pool, checked and complete. */
export type PoolConfig =
  & Required<Omit<WorkerPoolOptions, "workers" | "attempts" | "circuit">>
  & {
    readonly discover: Discover;
    readonly attempts: Readonly<Record<RetryClass, number>>;
    readonly circuit: CircuitOptions;
  };

/** Requests `/health/ready`, and reads `freeSlots` from its JSON. */
const fetchProbe: HealthProbe = async (worker, { signal }) => {
  const response = await fetch(workerUrl(worker.url, "/health/ready"), { signal });
  const text = await response.text();
  const freeSlots = response.ok ? freeSlotsIn(text) : undefined;
  return { healthy: response.ok, ...(freeSlots === undefined ? {} : { freeSlots }) };
};

function freeSlotsIn(text: string): number | undefined {
  try {
    const { freeSlots } = Object(JSON.parse(text));
    return typeof freeSlots === "number" ? freeSlots : undefined;
  } catch {
    return undefined;
  }
}

/** Checks the options and adds the defaults. */
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

/** Returns the addresses of a list, each worker once. */
export function addresses(workers: WorkerList): readonly WorkerAddress[] {
  if (!Array.isArray(workers)) {
    throw new TypeError(`Invalid workers: expected an array or a function, got ${show(workers)}`);
  }
  const found = new Map<string, WorkerAddress>();
  for (const worker of workers as WorkerList) {
    const address = typeof worker === "string" ? { id: hostAndPath(worker), url: worker } : worker;
    hostAndPath(address.url);
    found.set(address.id, address);
  }
  return [...found.values()];
}

/** Returns host and path of a URL, without credentials and query. */
function hostAndPath(url: string): string {
  const parsed = /^https?:/i.test(url) ? parseUrl(url) : undefined;
  if (parsed === undefined) {
    throw new TypeError("Invalid worker URL: expected one like http://10.0.0.7:8080");
  }
  const { host, pathname } = parsed;
  return host + pathname.replace(/\/$/, "");
}
