import { onAbort } from "../../_promises.ts";
import type { Cancel, Clock } from "../../clock.ts";
import { MailboxConnectionError } from "../../mailbox/errors.ts";
import { PendingCalls } from "./calls.ts";

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
