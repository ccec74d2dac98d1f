import type { WorkerAddress } from "./worker_address.ts";

/** Failures after which the pool may try another worker. */
export type RetryClass = "terminating" | "unreachable" | "capacity";

/** The outcome of an attempt. */
export type AttemptOutcome = "answered" | RetryClass | "failed" | "deadline" | "aborted";

/** All outcomes, for counters that begin at zero. */
export const ATTEMPT_OUTCOMES: readonly AttemptOutcome[] = [
  "answered",
  "terminating",
  "unreachable",
  "capacity",
  "failed",
  "deadline",
  "aborted",
];

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
