import { onAbort, settlesWithin } from "../../_promises.ts";
import { type Cancel, type Clock, nextTurn } from "../../clock.ts";
import { MailboxConnectionError } from "../../mailbox/errors.ts";
import { connectionError } from "./_errors.ts";
import type { SqsClient, SqsCommands } from "./sqs_client.ts";

/**
 * A close waits only for calls that started within this time, so that an unreachable service does not
 * delay a stop.
 */
const CLOSE_WAIT_MS = 1_000;

type NameOf<Key> = Key extends `${infer Name}Command` ? Name : never;

export type CommandName = NameOf<keyof SqsCommands>;

/** Options of {@linkcode Calls.run}. */
export interface CallOptions {
  /** How long the request itself lets the service wait, in milliseconds. @default {0} */
  readonly waitMs?: number;
  /** Aborts the call. A close does not wait for a call with a signal. */
  readonly signal?: AbortSignal;
}

/** Calls to the service, each with a timeout and its own abort signal. */
export class Calls {
  readonly clock: Clock;
  readonly #client: SqsClient;
  readonly #commands: SqsCommands;
  readonly #timeoutMs: number;
  readonly #pending = new Set<Promise<unknown>>();
  #lastCallAt = -Infinity;

  constructor(client: SqsClient, commands: SqsCommands, clock: Clock, timeoutMs: number) {
    this.#client = client;
    this.#commands = commands;
    this.clock = clock;
    this.#timeoutMs = timeoutMs;
  }

  /** Sends a command and returns the answer. */
  async run<Answer>(
    what: string,
    name: CommandName,
    input: object,
    options: CallOptions = {},
  ): Promise<Answer> {
    const call = this.#withinTime<Answer>(what, name, input, options);
    if (options.signal === undefined) this.#pending.add(call);
    try {
      return await call;
    } catch (error) {
      throw connectionError(what, error);
    } finally {
      this.#pending.delete(call);
    }
  }

  /** Waits for open calls, up to the limit. */
  async settle(): Promise<void> {
    const leftMs = CLOSE_WAIT_MS - (this.clock.monotonic() - this.#lastCallAt);
    await settlesWithin(this.#settled(), Math.max(0, leftMs), this.clock);
  }

  async #settled(): Promise<void> {
    // A receiver that got messages during the close releases them within this turn.
    do {
      await Promise.allSettled(this.#pending);
      await nextTurn();
    } while (this.#pending.size > 0);
  }

  async #withinTime<Answer>(
    what: string,
    name: CommandName,
    input: object,
    { waitMs = 0, signal }: CallOptions,
  ): Promise<Answer> {
    if (signal === undefined) this.#lastCallAt = this.clock.monotonic();
    const timeoutMs = waitMs + this.#timeoutMs;
    const givingUp = new AbortController();
    let cancel: Cancel | undefined;
    const expired = new Promise<never>((_, reject) => {
      cancel = this.clock.schedule(timeoutMs, () => {
        givingUp.abort();
        reject(
          new MailboxConnectionError(
            `SQS did not answer within ${timeoutMs} ms when asked to ${what}; check that it is reachable. ` +
              "The next call tries again",
          ),
        );
      });
    });
    const unlink = onAbort(signal, () => givingUp.abort());
    try {
      const command = new this.#commands[`${name}Command`](input);
      const sent = this.#client.send(command, { abortSignal: givingUp.signal });
      return await Promise.race([sent as Promise<Answer>, expired]);
    } finally {
      cancel?.();
      unlink();
    }
  }
}
