import type { WorkerAddress } from "./worker_address.ts";

/** Failures after which another worker may be asked. */
export type RetryClass = "terminating" | "unreachable" | "capacity";

/** What became of an attempt. */
export type AttemptOutcome = "answered" | RetryClass | "failed" | "deadline" | "aborted";

/** All of them, for counters that begin at zero. */
export const ATTEMPT_OUTCOMES: readonly AttemptOutcome[] = [
  "answered",
  "terminating",
  "unreachable",
  "capacity",
  "failed",
  "deadline",
  "aborted",
];

/** What a call to a worker gets. */
export interface CallContext {
  /** Aborts when the caller loses interest or the deadline passes. */
  readonly signal: AbortSignal;
  /** Counts the attempts from 1. */
  readonly attempt: number;
  /** What is left of the caller's time. */
  readonly remainingMs: number;
  /** True when no worker was healthy, and this one is asked all the same. */
  readonly noneHealthy: boolean;
  /** What carries the trace on to the worker, as headers. */
  readonly traceHeaders: Readonly<Record<string, string>>;
  /**
   * The attempt goes on after the call has returned, until the returned function is called or `signal`
   * aborts.
   */
  readonly hold: () => () => void;
}

/**
 * Asks one worker. What it rejects with says whether another may be asked: `TerminatingError`,
 * `UnreachableError` and `CapacityError` do, everything else does not. With `started: true` on the error
 * another is asked only where the request is `idempotent`.
 */
export type PoolCall<T> = (worker: WorkerAddress, context: CallContext) => Promise<T>;

/** Options of one request. */
export interface PoolRequestOptions {
  /** How long it may take, all attempts together. @default {the pool's} */
  readonly deadlineMs?: number;
  /** Binds it to the worker that this session belongs to: it is never tried elsewhere. */
  readonly sessionId?: string;
  /** Binds it to this worker, where the caller knows better who has the session. */
  readonly workerId?: string;
  /**
   * Whether a worker may execute the request again after another one may have. Without it a request is
   * retried only when it is certain that no worker has begun with it.
   *
   * @default {true for GET, HEAD, OPTIONS, TRACE and with a header `Idempotency-Key`, false otherwise}
   */
  readonly idempotent?: boolean;
  /** Workers not to ask. */
  readonly exclude?: Iterable<string>;
  /** Gives up when aborted. */
  readonly signal?: AbortSignal;
}

/** Told after each attempt. */
export interface AttemptEvent {
  /** The address of the one that was asked. */
  readonly worker: string;
  /** Counts from 1. */
  readonly attempt: number;
  /** How it ended, and so whether another worker is asked. */
  readonly outcome: AttemptOutcome;
  /** How long it took. */
  readonly ms: number;
  /** What is left of the caller's time. */
  readonly remainingMs: number;
  /** True when another worker is asked next. */
  readonly retried: boolean;
  /** True when no worker was healthy, and this one was asked all the same. */
  readonly noneHealthy: boolean;
  /** What it failed with. */
  readonly error?: unknown;
}

/** Told when a worker turns healthy or unhealthy, comes or goes. */
export interface WorkerEvent {
  /** The address of the one that changed. */
  readonly worker: string;
  /** What happened to it. */
  readonly change: "joined" | "left" | "healthy" | "unhealthy" | "circuit_opened";
}

/** What a pool tells. */
export interface PoolEvents {
  /** An attempt has ended. */
  readonly attempt: AttemptEvent;
  /** A worker has changed. */
  readonly worker: WorkerEvent;
}
