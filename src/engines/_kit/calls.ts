import { onAbort, settlesWithin } from "../../_promises.ts";
import { type Cancel, type Clock, nextTurn } from "../../clock.ts";
import { missingPackages } from "../../errors.ts";
import { MailboxClosedError, MailboxConnectionError } from "../../mailbox/errors.ts";

/**
 * Loads the client of an engine, an optional package. `user` is the subject of the error when it is missing,
 * such as `A mailbox on Redis`, and `instead` is what a caller can do without the package.
 *
 * Pass `() => import(MODULE)` with a constant `MODULE: string` in the same file: JSR would make a literal
 * name a dependency of every user, and the npm build makes the name visible to bundlers.
 */
export async function loadClient<T>(
  user: string,
  name: string,
  load: () => Promise<unknown>,
  instead: string = "pass a client",
): Promise<T> {
  try {
    return await load() as T;
  } catch (error) {
    throw new MailboxConnectionError(`${missingPackages(user, [name])}, or ${instead}`, {
      cause: error,
      reason: "client_missing",
    });
  }
}

/** The calls to a server that have no answer yet. */
export class PendingCalls {
  readonly #calls = new Set<Promise<unknown>>();

  /** Counts `call` as pending until it settles, and returns its result. */
  async track<T>(call: Promise<T>): Promise<T> {
    this.#calls.add(call);
    try {
      return await call;
    } finally {
      this.#calls.delete(call);
    }
  }

  /** Resolves when no call is pending, at the latest after `timeoutMs`: a server may be frozen. */
  async settled(timeoutMs: number, clock: Clock): Promise<void> {
    const settle = async () => {
      do {
        await Promise.allSettled(this.#calls);
        await nextTurn(clock); // a caller that has just received messages releases them in this turn
      } while (this.#calls.size > 0);
    };
    await settlesWithin(settle(), timeoutMs, clock);
  }
}

/** How long after its start a call can delay a close, in milliseconds. */
const CLOSE_WAIT_MS = 1_000;

/** Options of {@linkcode BoundedCalls.run}. */
export interface CallOptions {
  /** How long the call itself lets the server wait, in milliseconds. @default {0} */
  readonly waitMs?: number;
  /** Aborts the call. A close does not wait for a call with a signal. */
  readonly signal?: AbortSignal;
}

/** Calls to a server. Each has a timeout, and an unreachable server does not delay a close. */
export class BoundedCalls {
  readonly #server: string;
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #pending = new PendingCalls();
  #lastCallAt = -Infinity;

  /** `server` is the subject of the error of a call that gets no answer. */
  constructor(server: string, clock: Clock, timeoutMs: number) {
    this.#server = server;
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
  }

  /** Runs `call`. The signal that it gets aborts at its timeout, or with the signal of the options. */
  async run<T>(
    what: string,
    call: (signal: AbortSignal) => Promise<T>,
    options: CallOptions = {},
  ): Promise<T> {
    const bounded = this.#withTimeout(what, call, options);
    if (options.signal !== undefined) return await bounded;
    this.#lastCallAt = this.#clock.monotonic();
    return await this.#pending.track(bounded);
  }

  /** Resolves when no call is pending, at the latest one second after the last call started. */
  async settled(): Promise<void> {
    const leftMs = CLOSE_WAIT_MS - (this.#clock.monotonic() - this.#lastCallAt);
    await this.#pending.settled(Math.max(0, leftMs), this.#clock);
  }

  async #withTimeout<T>(
    what: string,
    call: (signal: AbortSignal) => Promise<T>,
    { waitMs = 0, signal }: CallOptions,
  ): Promise<T> {
    const timeoutMs = waitMs + this.#timeoutMs;
    const ending = new AbortController();
    let cancel: Cancel | undefined;
    const expired = new Promise<never>((_, reject) => {
      cancel = this.#clock.schedule(timeoutMs, () => {
        ending.abort();
        reject(
          new MailboxConnectionError(
            `${this.#server} did not answer within ${timeoutMs} ms when asked to ${what}; check that it ` +
              "is reachable. The next call tries again",
          ),
        );
      });
    });
    const unlink = onAbort(signal, () => ending.abort());
    try {
      return await Promise.race([call(ending.signal), expired]);
    } finally {
      cancel?.();
      unlink();
    }
  }
}

/** How often a lost call is checked for effects, in milliseconds. */
const CHECK_INTERVAL_MS = 500;

interface Lost<C> {
  readonly call: C;
  /** Until then the call may still reach the server. */
  readonly arrivesBefore: number;
  checkAt: number;
}

/**
 * Calls whose answers were lost. A call that was given up with its connection may still be in a buffer
 * and reach the server after later calls, so its effects are checked more than once: by the next receives,
 * and by a timer while a loop has no free slot and receives nothing.
 */
export class LostCalls<C> {
  readonly #clock: Clock;
  readonly #lateMs: number;
  readonly #undo: (calls: readonly C[]) => Promise<void>;
  #lost: Lost<C>[] = [];
  #cancel: Cancel | undefined;
  #stopped = false;

  /** `lateMs` is how long a call may take to reach the server after it was given up, in milliseconds. */
  constructor(clock: Clock, lateMs: number, undo: (calls: readonly C[]) => Promise<void>) {
    this.#clock = clock;
    this.#lateMs = lateMs;
    this.#undo = undo;
  }

  add(call: C): void {
    const now = this.#clock.monotonic();
    this.#lost.push({ call, arrivesBefore: now + this.#lateMs, checkAt: now });
    this.#continue();
  }

  /** Milliseconds until the next check; `Infinity` when no call was lost. */
  get nextLookMs(): number {
    const at = this.#lost.reduce((first, { checkAt }) => Math.min(first, checkAt), Infinity);
    return Math.max(0, at - this.#clock.monotonic());
  }

  /** Undoes the lost calls that are due for a check, or all of them. */
  async look(all = false): Promise<void> {
    const now = this.#clock.monotonic();
    const due = this.#lost.filter(({ checkAt }) => all || checkAt <= now);
    if (due.length === 0) return;
    await this.#undo(due.map(({ call }) => call));
    for (const lost of due) lost.checkAt = now + CHECK_INTERVAL_MS;
    this.#lost = this.#lost.filter((lost) => !due.includes(lost) || now < lost.arrivesBefore);
  }

  /** Ends the timer. */
  stop(): void {
    this.#stopped = true;
    this.#cancel?.();
  }

  #continue(): void {
    if (this.#stopped || this.#cancel !== undefined || this.#lost.length === 0) return;
    this.#cancel = this.#clock.schedule(CHECK_INTERVAL_MS, async () => {
      await this.look().catch((error) => {
        // Closing a mailbox closes the connection of its dead letters without notice.
        if (error instanceof MailboxClosedError) this.#stopped = true;
        // Otherwise the engine is unavailable. A receive reports the failure.
      });
      this.#cancel = undefined;
      this.#continue();
    });
  }
}
