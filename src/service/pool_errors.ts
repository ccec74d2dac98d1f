/** Options of {@linkcode UnreachableError}. */
export interface UnreachableErrorOptions extends ErrorOptions {
  /** Whether the worker may have executed the request. @default {false} */
  readonly started?: boolean;
}

/** A worker gave no answer: nothing listens at its address, or the connection broke. */
export class UnreachableError extends Error {
  /** What {@linkcode isUnreachableError} looks at. */
  override readonly name = "UnreachableError";
  /**
   * True when the worker may have executed the request: the connection was made, and broke before the
   * answer. The pool then asks another worker only for an idempotent request.
   */
  readonly started: boolean;

  /** The message names the worker and the request. */
  constructor(message: string, options: UnreachableErrorOptions = {}) {
    super(message, options);
    this.started = options.started ?? false;
  }
}

/** A worker has no room for more: it answered 429, or 503 with one of the pool's `capacityCodes`. */
export class CapacityError extends Error {
  /** What {@linkcode isCapacityError} looks at. */
  override readonly name = "CapacityError";
}

/** There is nobody to ask: the pool knows no worker, or none that was not excluded. */
export class NoWorkerError extends Error {
  /** What {@linkcode isNoWorkerError} looks at. */
  override readonly name = "NoWorkerError";
}

/** True for an {@linkcode UnreachableError} of any copy of the package. */
export function isUnreachableError(error: unknown): error is UnreachableError {
  return error instanceof Error && error.name === "UnreachableError";
}

/** True for a {@linkcode CapacityError} of any copy of the package. */
export function isCapacityError(error: unknown): error is CapacityError {
  return error instanceof Error && error.name === "CapacityError";
}

/** True for a {@linkcode NoWorkerError} of any copy of the package. */
export function isNoWorkerError(error: unknown): error is NoWorkerError {
  return error instanceof Error && error.name === "NoWorkerError";
}

/** True when a request that failed with `error` may have been executed. */
export function mayHaveStarted(error: unknown): boolean {
  return Object(error).started === true;
}
