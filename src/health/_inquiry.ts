import { settlesWithin } from "../_promises.ts";
import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";

/** How something is asked that may be away. */
export interface InquiryOptions<T> {
  /** For people: `mailbox "orders"`. */
  readonly what: string;
  readonly ask: () => Promise<T>;
  /** How long an answer may take. */
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly log: Log;
}

/** There was no answer in time. */
export class NoAnswerError extends Error {
  override readonly name = "NoAnswerError";
}

/** Whoever does not answer at all is asked less often: each question may still be waiting somewhere. */
const SILENCE_MS = 5_000;

/**
 * What is known of something that may be away. However many look, it is asked once at a time, and not
 * again while its answer is fresh.
 */
export class Inquiry<T> {
  readonly #options: InquiryOptions<T>;
  #answer: T | undefined;
  #reachable: boolean | undefined;
  #error: unknown;
  #dueAt = -Infinity;
  #asking: Promise<void> | undefined;

  constructor(options: InquiryOptions<T>) {
    this.#options = options;
  }

  /** Whether it has answered the last time. */
  get reachable(): boolean {
    return this.#reachable === true;
  }

  /** What it has answered last, whenever that was. */
  get answer(): T | undefined {
    return this.#answer;
  }

  /** Why it could not be asked the last time. */
  get error(): unknown {
    return this.#error;
  }

  /** Asks when the answer is older than `freshMs`. There is something to wait for unless it is away. */
  refresh(freshMs: number): Promise<void> | undefined {
    if (this.#asking === undefined && this.#options.clock.monotonic() >= this.#dueAt) {
      this.#asking = this.#ask(freshMs).finally(() => this.#asking = undefined);
    }
    return this.#reachable === false ? undefined : this.#asking;
  }

  async #ask(freshMs: number): Promise<void> {
    const { ask, clock, timeoutMs } = this.#options;
    let late = false;
    let retryMs = freshMs;
    const answered = Promise.resolve().then(ask).then(
      (answer) => {
        if (late) return;
        this.#answer = answer;
        this.#reachable = true;
      },
      (error) => late || this.#away(error),
    );
    if (!await settlesWithin(answered, timeoutMs, clock)) {
      late = true;
      retryMs = Math.max(freshMs, SILENCE_MS);
      this.#away(new NoAnswerError(`no answer within ${timeoutMs} ms`));
    }
    this.#dueAt = clock.monotonic() + retryMs;
  }

  /** Told once, not at every look. */
  #away(error: unknown): void {
    const { log, what } = this.#options;
    if (this.#reachable !== false) log.warn(`${what} cannot be asked how it is doing`, { error });
    this.#reachable = false;
    this.#error = error;
  }
}
