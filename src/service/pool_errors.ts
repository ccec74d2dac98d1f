/** Options of {@linkcode UnreachableError}. */
export interface UnreachableErrorOptions extends ErrorOptions {
  /** Whether the worker may have executed the request. @default {false} */
  readonly started?: boolean;
}

/** A worker did not answer: nothing listens at its address, or the connection broke. */
export class UnreachableError extends Error {
  /** {@linkcode isUnreachableError} compares it. */
  override readonly name = "UnreachableError";
  /**
   * True when the worker may have executed the request: the connection broke before the answer. The pool
   * then retries only an idempotent request.
   */
  readonly started: boolean;

  /** Creates the error. `message` names the worker and the request. */
  constructor(message: string, options: UnreachableErrorOptions = {}) {
    super(message, options);
    this.started = options.started ?? false;
  }
}

/** A worker is at capacity: it answered 429, or 503 with one of the pool's `capacityCodes`. */
export class CapacityError extends Error {
  /** {@linkcode isCapacityError} compares it. */
  override readonly name = "CapacityError";
}

/** No worker is available: the pool knows none, or all are excluded. */
export class NoWorkerError extends Error {
  /** {@linkcode isNoWorkerError} compares it. */
  override readonly name = "NoWorkerError";
}

/** Returns true for an {@linkcode UnreachableError} of any copy of the package. */
export function isUnreachableError(error: unknown): error is UnreachableError {
  return error instanceof Error && error.name === "UnreachableError";
}

/** Returns true for a {@linkcode CapacityError} of any copy of the package. */
export function isCapacityError(error: unknown): error is CapacityError {
  return error instanceof Error && error.name === "CapacityError";
}

/** Returns true for a {@linkcode NoWorkerError} of any copy of the package. */
export function isNoWorkerError(error: unknown): error is NoWorkerError {
  return error instanceof Error && error.name === "NoWorkerError";
}

/** Returns true when a request that failed with `error` may have been executed. */
export function mayHaveStarted(error: unknown): boolean {
  return Object(error).started === true;
}
