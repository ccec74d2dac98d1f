import { TERMINATING, TerminatingError } from "../errors.ts";

/** Options of {@linkcode terminatingResponse}. */
export interface TerminatingResponseOptions {
  /** The message in the body. @default {"The service is stopping: try again, preferably elsewhere"} */
  readonly message?: string;
  /** The `Retry-After` header, rounded up to seconds. @default {1_000} */
  readonly retryAfterMs?: number;
  /**
   * Whether the request may have had effects before it was cancelled. A `WorkerPool` then retries only an
   * idempotent request. @default {false}
   */
  readonly started?: boolean;
}

/** The JSON body of the 503 that a stopping service sends. */
export interface TerminatingBody {
  /** The error: a code for programs, a message for people. */
  readonly error: {
    readonly code: typeof TERMINATING;
    readonly name: "TERMINATING";
    readonly message: string;
    /** True when the request may have had effects before it was cancelled. */
    readonly started?: true;
  };
}

const MESSAGE = "The service is stopping: try again, preferably elsewhere";

/** Creates the response of a stopping service: 503 with code 5006. */
export function terminatingResponse(options: TerminatingResponseOptions = {}): Response {
  const { message = MESSAGE, retryAfterMs = 1_000, started = false } = options;
  const error = { code: TERMINATING, name: "TERMINATING", message } as const;
  const body: TerminatingBody = { error: started ? { ...error, started } : error };
  return new Response(JSON.stringify(body), {
    status: 503,
    headers: {
      "content-type": "application/json",
      "retry-after": String(Math.ceil(retryAfterMs / 1_000)),
      "connection": "close",
    },
  });
}

/**
 * Parses the body of a 503. Returns an error when a stopping service sent it, otherwise undefined. The
 * error has `started: true` when the request may have had effects.
 */
export function terminatingErrorOf(text: string): TerminatingError | undefined {
  const { code, message, started } = errorIn(text);
  if (code !== TERMINATING) return undefined;
  const error = new TerminatingError(
    typeof message === "string" ? message : "the service is stopping",
  );
  return started === true ? Object.assign(error, { started }) : error;
}

/** Returns the `error` object in the JSON of a response; an empty object where there is none. */
export function errorIn(text: string): Readonly<Record<string, unknown>> {
  try {
    return Object(Object(JSON.parse(text)).error);
  } catch {
    return {};
  }
}

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
