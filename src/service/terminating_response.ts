import { TERMINATING, TerminatingError } from "../errors.ts";

/** Options of {@linkcode terminatingResponse}. */
export interface TerminatingResponseOptions {
  /** What people read in the body. @default {"The service is stopping: try again, preferably elsewhere"} */
  readonly message?: string;
  /** When to try again at the earliest, in whole seconds. @default {1_000} */
  readonly retryAfterMs?: number;
  /**
   * Whether the request may have had effects before it was given up. A `WorkerPool` then asks another
   * worker only for an idempotent request. @default {false}
   */
  readonly started?: boolean;
}

/** The body of the answer to whoever comes while a service stops. */
export interface TerminatingBody {
  /** The code is what programs go by, the message is for people. */
  readonly error: {
    readonly code: typeof TERMINATING;
    readonly name: "TERMINATING";
    readonly message: string;
    /** True when the request may have had effects before it was given up. */
    readonly started?: true;
  };
}

const MESSAGE = "The service is stopping: try again, preferably elsewhere";

/** The answer to whoever comes while a service stops: 503 with code 5006. */
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
 * Reads the body of a 503: an error when it is the answer of a service that stops. The error has
 * `started: true` when the request may have had effects.
 */
export function terminatingErrorOf(text: string): TerminatingError | undefined {
  const { code, message, started } = errorIn(text);
  if (code !== TERMINATING) return undefined;
  const error = new TerminatingError(String(message));
  return started === true ? Object.assign(error, { started }) : error;
}

/** What stands under `error` in the JSON of an answer; nothing where it is something else. */
export function errorIn(text: string): Readonly<Record<string, unknown>> {
  try {
    return Object(Object(JSON.parse(text)).error);
  } catch {
    return {};
  }
}
