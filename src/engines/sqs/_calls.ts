import { onAbort, settlesWithin } from "../../_promises.ts";
import { type Cancel, type Clock, nextTurn } from "../../clock.ts";
import { MailboxConnectionError } from "../../mailbox/errors.ts";
import { connectionError } from "./_errors.ts";
import type { SqsClient, SqsCommands } from "./sqs_client.ts";

/** A close waits for calls that are younger: longer, and a service out of reach would hold up a stop. */
const LINGER_MS = 1_000;

type NameOf<Key> = Key extends `${infer Name}Command` ? Name : never;

/** The names of the commands. */
export type CommandName = NameOf<keyof SqsCommands>;

/** Options of {@linkcode Calls.run}. */
export interface CallOptions {
  /** How long the service may take by what it was asked for. @default {0} */
  readonly waitMs?: number;
  /** Gives the call up. Nobody waits for such a call when the mailbox closes. */
  readonly signal?: AbortSignal;
}

/** Calls of the service, each within its time and with a signal of its own. */
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

  /** Sends a command and resolves with the answer. */
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

  /** Resolves when no call is under way, or when the youngest has taken too long. */
  async settle(): Promise<void> {
    const leftMs = LINGER_MS - (this.clock.monotonic() - this.#lastCallAt);
    await settlesWithin(this.#settled(), Math.max(0, leftMs), this.clock);
  }

  async #settled(): Promise<void> {
    // Whoever was handed something at this very moment gives it back within this turn.
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
            `SQS did not answer within ${timeoutMs} ms when asked to ${what}; is it within reach? ` +
              "It is tried again with the next call",
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
