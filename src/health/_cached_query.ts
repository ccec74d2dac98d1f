import { deferred, settlesWithin } from "../_promises.ts";
import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";

/** Options of a query to a system that may be unreachable. */
export interface CachedQueryOptions<T> {
  /** Asks. `signal` aborts when the answer took too long. */
  readonly ask: (signal: AbortSignal) => Promise<T>;
  /** The fields of its log lines, as in `{ mailbox: "orders" }`. */
  readonly fields: Readonly<Record<string, string>>;
  /** How long an answer may take. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly log: Log;
}

/** The query timed out. */
export class NoAnswerError extends Error {
  override readonly name = "NoAnswerError";
}

/** The pause after a timeout. It is long, because the timed-out query may still be running. */
const TIMEOUT_RETRY_MS = 5_000;

/**
 * Caches the answer of a query. It runs one query at a time for any number of readers, and none while the
 * answer is fresh.
 */
export class CachedQuery<T> {
  readonly #options: CachedQueryOptions<T>;
  #answer: T | undefined;
  #reachable: boolean | undefined;
  #error: unknown;
  #dueAt = -Infinity;
  #pending: Promise<void> | undefined;
  #abandon: () => void = () => {};

  constructor(options: CachedQueryOptions<T>) {
    this.#options = options;
  }

  /** Whether the last query succeeded. */
  get reachable(): boolean {
    return this.#reachable === true;
  }

  /** The last answer, unless the last query failed or the next one is running. */
  get current(): T | undefined {
    return this.reachable && this.#pending === undefined ? this.#answer : undefined;
  }

  /** The last answer, of any age. */
  get answer(): T | undefined {
    return this.#answer;
  }

  /** The error of the last query, if it failed. */
  get error(): unknown {
    return this.#error;
  }

  /** Runs the query when the answer is older than `freshMs`. Returns undefined while it is unreachable. */
  refresh(freshMs: number): Promise<void> | undefined {
    if (this.#pending === undefined && this.#options.clock.monotonic() >= this.#dueAt) {
      this.#pending = this.#ask(freshMs).finally(() => this.#pending = undefined);
    }
    return this.#reachable === false ? undefined : this.#pending;
  }

  /** Ends the wait for the running query, and leaves no timer. */
  abandon(): void {
    this.#abandon();
  }

  async #ask(freshMs: number): Promise<void> {
    const { ask, clock, timeoutMs } = this.#options;
    const late = new AbortController();
    const { signal } = late;
    const abandoned = deferred();
    this.#abandon = () => {
      late.abort();
      abandoned.resolve();
    };
    let retryMs = freshMs;
    const answered = Promise.resolve().then(() => ask(signal)).then(
      (answer) => {
        if (signal.aborted) return;
        this.#answer = answer;
        this.#reachable = true;
      },
      (error) => signal.aborted || this.#failed(error),
    );
    const ended = Promise.race([answered, abandoned.promise]);
    if (!await settlesWithin(ended, timeoutMs, clock)) {
      late.abort();
      retryMs = Math.max(freshMs, TIMEOUT_RETRY_MS);
      this.#failed(new NoAnswerError(`no answer within ${timeoutMs} ms`));
    }
    this.#dueAt = clock.monotonic() + retryMs;
  }

  /** Logs the first failure, not every one. */
  #failed(error: unknown): void {
    const { log, fields } = this.#options;
    if (this.#reachable !== false) log.warn("status query failed", { ...fields, error });
    this.#reachable = false;
    this.#error = error;
  }
}
