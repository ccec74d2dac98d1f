/**
 * The parts of the AWS SDK that the engine uses, and the calls that it makes with them.
 *
 * @module
 */

import { BoundedCalls, type CallOptions } from "../_kit/calls.ts";
import type { Clock } from "../../clock.ts";
import { errorText } from "../../errors.ts";
import { isMailboxError, MailboxConnectionError } from "../../mailbox/errors.ts";
import type { Random } from "../../random.ts";

/** A client of SQS, like the SDK's `SQSClient`. */
export interface SqsClient {
  /** Sends a command. The signal aborts it. */
  // deno-lint-ignore no-explicit-any -- the SDK defines the types of commands and answers
  send(command: any, options?: { readonly abortSignal?: AbortSignal }): Promise<any>;
}

/** A command class of the SDK. */
// deno-lint-ignore no-explicit-any -- as above
export type SqsCommand = new (input: any) => unknown;

/** The command classes that the engine uses. */
export interface SqsCommands {
  /** Extends, releases and nacks messages. */
  readonly ChangeMessageVisibilityBatchCommand: SqsCommand;
  /** Creates missing queues, if allowed. */
  readonly CreateQueueCommand: SqsCommand;
  /** Acknowledges messages. */
  readonly DeleteMessageBatchCommand: SqsCommand;
  /** Counts messages and reads the settings of the queue. */
  readonly GetQueueAttributesCommand: SqsCommand;
  /** Finds a queue by its name. */
  readonly GetQueueUrlCommand: SqsCommand;
  /** Deletes all messages of a queue. */
  readonly PurgeQueueCommand: SqsCommand;
  /** Receives messages. */
  readonly ReceiveMessageCommand: SqsCommand;
  /** Sends messages and dead letters. */
  readonly SendMessageBatchCommand: SqsCommand;
}

/** The module `@aws-sdk/client-sqs`. */
export interface SqsSdk extends SqsCommands {
  /** Creates the client, unless the caller passes one. */
  // deno-lint-ignore no-explicit-any -- as above
  readonly SQSClient: new (config: any) => SqsClient & { destroy(): void };
}

/** The most entries that SQS takes in one request. */
export const BATCH = 10;

/** More parallel requests would wait for a connection. */
export const PARALLEL = 16;

/** How often an entry with a transient error is tried. */
const ATTEMPTS = 4;
const RETRY_PAUSE_MS = 50;

type NameOf<Key> = Key extends `${infer Name}Command` ? Name : never;
type CommandName = NameOf<keyof SqsCommands>;

/** A permanent error of one entry. */
export interface Refusal {
  readonly code: string;
  readonly text: string;
}

/** The result of one entry; undefined when it succeeded. */
export type Outcome = undefined | Refusal | Error;

/** One entry without its id in the batch. */
export interface BatchEntry {
  readonly input: object;
  /** Its share of the request size, in bytes. */
  readonly bytes?: number;
}

/** A command on many entries. */
export interface Batches {
  /** The verb and the queue, for errors. */
  readonly what: string;
  readonly command: CommandName;
  readonly queueUrl: string;
  readonly entries: readonly BatchEntry[];
  /** The largest request in bytes. @default {Infinity} */
  readonly maxBytes?: number;
  /** Sends one batch at a time and stops after a failed one. @default {false} */
  readonly inOrder?: boolean;
}

interface BatchAnswer {
  readonly Failed?: readonly {
    readonly Id: string;
    readonly Code?: string;
    readonly Message?: string;
    readonly SenderFault?: boolean;
  }[];
}

/** Calls to the service, each with a timeout and its own abort signal. */
export class SqsCalls {
  readonly clock: Clock;
  readonly random: Random;
  readonly #client: SqsClient;
  readonly #commands: SqsCommands;
  readonly #bounded: BoundedCalls;

  constructor(
    client: SqsClient,
    commands: SqsCommands,
    options: { readonly clock: Clock; readonly random: Random; readonly timeoutMs: number },
  ) {
    this.#client = client;
    this.#commands = commands;
    this.clock = options.clock;
    this.random = options.random;
    this.#bounded = new BoundedCalls("SQS", options.clock, options.timeoutMs);
  }

  /** Sends a command and returns the answer. */
  async run<Answer>(
    what: string,
    name: CommandName,
    input: object,
    options: CallOptions = {},
  ): Promise<Answer> {
    const send = (abortSignal: AbortSignal): Promise<Answer> =>
      this.#client.send(new this.#commands[`${name}Command`](input), { abortSignal });
    try {
      return await this.#bounded.run(what, send, options);
    } catch (error) {
      throw connectionError(what, error);
    }
  }

  /** Runs a command on many entries in as few requests as possible. Returns the outcome of each entry. */
  async runInBatches(batches: Batches): Promise<Outcome[]> {
    const { entries, maxBytes = Infinity, inOrder = false } = batches;
    const outcomes: Outcome[] = entries.map(() =>
      new MailboxConnectionError("SQS was not called, because an earlier batch failed")
    );
    const queue = split(entries, maxBytes);
    const work = async () => {
      for (let batch = queue.shift(); batch !== undefined; batch = queue.shift()) {
        await this.#runBatch(batches, batch, outcomes);
        if (inOrder && batch.some((i) => outcomes[i] !== undefined)) return;
      }
    };
    const workers = Math.min(inOrder ? 1 : PARALLEL, queue.length);
    await Promise.all(Array.from({ length: workers }, work));
    return outcomes;
  }

  /** Waits for pending calls, at the latest until one second after the last call started. */
  settled(): Promise<void> {
    return this.#bounded.settled();
  }

  async #runBatch(
    { what, command, queueUrl, entries }: Batches,
    batch: readonly number[],
    outcomes: Outcome[],
  ): Promise<void> {
    let remaining = batch;
    for (let attempt = 1; remaining.length > 0; attempt++) {
      const Entries = remaining.map((i) => ({ Id: `${i}`, ...entries[i]!.input }));
      const failed: number[] = [];
      try {
        const answer = await this.run<BatchAnswer>(what, command, { QueueUrl: queueUrl, Entries });
        for (const i of remaining) outcomes[i] = undefined;
        for (const { Id, Code = "", Message = "", SenderFault = false } of answer.Failed ?? []) {
          const text = `${Code}: ${Message}`.replace(/\.$/, "");
          if (isTransient(Code, SenderFault)) {
            outcomes[Number(Id)] = new MailboxConnectionError(`SQS failed to ${what}: ${text}`);
            failed.push(Number(Id));
          } else outcomes[Number(Id)] = { code: Code, text };
        }
      } catch (error) {
        for (const i of remaining) outcomes[i] = error as Error;
        return; // the SDK has retried already
      }
      if (attempt === ATTEMPTS) return;
      remaining = failed;
      if (remaining.length === 0) return;
      await this.clock.sleep(RETRY_PAUSE_MS * 2 ** attempt * (0.5 + this.random.number()));
    }
  }
}

/** Throws the first transient error, so that the caller tries again. */
export function throwFailed(outcomes: readonly Outcome[]): void {
  const failed = outcomes.find((it) => it instanceof Error);
  if (failed !== undefined) throw failed;
}

/** Returns true when SQS refused an entry for good. */
export function isRefusal(outcome: Outcome): outcome is Refusal {
  return outcome !== undefined && !(outcome instanceof Error);
}

/** Returns the indexes of the entries, grouped into requests. */
function split(entries: readonly BatchEntry[], maxBytes: number): number[][] {
  const batches: number[][] = [];
  let batch: number[] = [];
  let size = 0;
  for (const [i, { bytes = 0 }] of entries.entries()) {
    if (batch.length === 0 || batch.length === BATCH || size + bytes > maxBytes) {
      batches.push(batch = []);
      size = 0;
    }
    batch.push(i);
    size += bytes;
  }
  return batches;
}

/** Wraps an error of the SDK in a `MailboxConnectionError`. */
function connectionError(what: string, error: unknown): Error {
  if (isMailboxError(error)) return error;
  const text = textOf(error);
  return new MailboxConnectionError(`SQS failed to ${what}: ${text}${advice(error, text)}`, {
    cause: withoutRequest(error, text),
  });
}

/** Returns true when the queue does not exist. The error has had several names. */
export function isNoQueue(error: unknown): boolean {
  return /QueueDoesNotExist|NonExistentQueue/.test(codeOf(error));
}

/**
 * Returns true when the credentials do not allow the call. Then it is unknown whether the queue exists.
 */
export function isForbidden(error: unknown): boolean {
  return /AccessDenied/.test(codeOf(error));
}

/** Returns true when the queue was purged less than a minute ago. */
export function isPurging(error: unknown): boolean {
  return /PurgeQueueInProgress/.test(codeOf(error));
}

/** Returns true when a retry of a batch entry may succeed. */
function isTransient(code: string, senderFault: boolean): boolean {
  return !senderFault || /throttl|unavailable|internal|timeout/i.test(code);
}

function codeOf(error: unknown): string {
  const { name = "", cause } = error instanceof Error ? error : new Error();
  return cause instanceof Error ? `${name} ${cause.name}` : name;
}

/** Returns only the first line. The others may quote the request with its signature. */
function textOf(error: unknown): string {
  const text = error instanceof Error ? error.message || codeOf(error) : errorText(error);
  return text.split("\n", 1)[0]!.slice(0, 300).replace(/\.$/, "");
}

/** Copies the error without the request and headers that the SDK attaches. */
function withoutRequest(error: unknown, text: string): Error {
  const name = error instanceof Error ? error.name : "Error";
  return Object.assign(new Error(text), { name, stack: `${name}: ${text}` });
}

function advice(error: unknown, text: string): string {
  const code = codeOf(error);
  if (isNoQueue(error)) return "; create the queue, or open the mailbox with create: true";
  if (/Region is missing/.test(text)) return "; set AWS_REGION, or pass region";
  if (/Credentials|Token|Signature|AccessDenied|InvalidClient/i.test(code)) {
    return "; check the credentials and their permissions";
  }
  if (/ECONNREFUSED|ENOTFOUND|ECONNRESET|ETIMEDOUT|socket|aborted/i.test(text)) {
    return "; check that the service is reachable. The next call tries again";
  }
  return "";
}
