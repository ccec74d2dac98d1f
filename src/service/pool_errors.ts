/** A worker gave no answer: nobody listens, or the connection broke. */
export class UnreachableError extends Error {
  /** What {@linkcode isUnreachableError} looks at. */
  override readonly name = "UnreachableError";
}

/** A worker has no room for more: it answered 429, or 503 without saying that it stops. */
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
