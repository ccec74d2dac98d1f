// The requests of the JetStream API that the engine uses, and its errors.
//
// `@nats-io/jetstream` 3.4 does not carry them; docs/engines.md ("NATS") has the figures:
// - Its `nak(ms)` is not confirmed and refuses a later ack; the engine's leases are delayed NAKs.
// - Its `fetch` waits for a full second when fewer messages are visible than were asked for.
// - A stopped `fetch` drops the message in transit.
// - A call whose connection is lost rejects after its whole timeout.
// Only the management of streams would remain, for which a second optional package is too much.

import { errorText } from "../../errors.ts";
import { isMailboxError, MailboxConnectionError } from "../../mailbox/errors.ts";
import type { Calls } from "./_calls.ts";
import type { NatsMessage } from "./nats_connection.ts";

/** An error answer of the server, with its JetStream error code. */
export class JetStreamError extends MailboxConnectionError {
  readonly code: number;
  readonly text: string;

  constructor(what: string, code: number, text: string) {
    super(`NATS failed to ${what}: ${text}${advice(text)}`);
    this.code = code;
    this.text = text;
  }
}

export const STREAM_NOT_FOUND = 10_059;
const CONSUMER_NOT_FOUND = 10_014;
export const STORE_FAILED = 10_077;
const NO_MESSAGE = 10_037;
/** The subject has no subscriber: the stream, the consumer or JetStream itself is missing. */
export const NO_RESPONDERS = 503;

/** Error codes of a missing stream or consumer. */
const MISSING: readonly number[] = [STREAM_NOT_FOUND, CONSUMER_NOT_FOUND, NO_RESPONDERS];

/**
 * Error codes that may disappear on a retry. The HTTP-like status is too coarse: 503 also means that
 * JetStream is not enabled.
 */
const TRANSIENT: readonly number[] = [
  10_004, // incomplete results
  10_007, // JetStream cluster not assigned to this server
  10_008, // JetStream system temporarily unavailable
  10_009, // JetStream cluster can not handle request
  10_012, // a consumer could not be created
  10_049, // error creating store for stream, while the last stream of the account is being deleted
  10_104, // error creating store for consumer
  10_118, // stream is offline
  ...MISSING, // JetStream is starting, or they were deleted between two steps of the set-up
];

/** Returns true when the same request may succeed a moment later. */
export function isTransient(error: unknown): error is JetStreamError {
  return error instanceof JetStreamError && TRANSIENT.includes(error.code);
}

/** Returns true when a stream or a consumer may be gone. */
export function isMissing(error: unknown): error is JetStreamError {
  return error instanceof JetStreamError && MISSING.includes(error.code);
}

/** Returns the error of a message that has a status code instead of an answer. */
export function statusError(
  what: string,
  { code, description }: NonNullable<NatsMessage["headers"]>,
): JetStreamError {
  if (code === NO_RESPONDERS) return new JetStreamError(what, code, "no responders");
  if (/consumer deleted/i.test(description)) {
    return new JetStreamError(what, CONSUMER_NOT_FOUND, "consumer not found");
  }
  return new JetStreamError(what, code, description);
}

/** The server did not answer within the call timeout. */
export class NoAnswerError extends MailboxConnectionError {
  constructor(what: string, timeoutMs: number) {
    super(
      `NATS did not answer within ${timeoutMs} ms when asked to ${what}; it may be overloaded or frozen. The ` +
        "next call tries again",
    );
  }
}

/** Wraps an error of the client in a `MailboxConnectionError`. */
export function connectionError(what: string, error: unknown): Error {
  if (isMailboxError(error)) return error;
  const text = (error instanceof Error ? error.message : errorText(error)).replace(/\.$/, "");
  return new MailboxConnectionError(`NATS failed to ${what}: ${text}${advice(text)}`, {
    cause: error,
  });
}

/** Returns the error for a connection that is not established or was lost during the call. */
export function connectionLost(what: string): Error {
  return connectionError(what, new Error("the connection is lost"));
}

function advice(text: string): string {
  if (/ECONNREFUSED|ENOTFOUND|ETIMEDOUT|refused|timeout|closed|is lost/i.test(text)) {
    return "; check that the server is running. The next call tries again";
  }
  if (/authorization|authentication|permissions/i.test(text)) {
    return "; check the user, the password and the permissions";
  }
  if (/no responders|not enabled/i.test(text)) {
    return "; enable JetStream on the server (nats-server --jetstream)";
  }
  if (/creating store/i.test(text)) {
    return "; check the free space and the permissions of the server's store directory";
  }
  if (/insufficient|resource limits/i.test(text)) return "; nothing was stored";
  return "";
}

const decoder = new TextDecoder();

/** Returns the parsed answer of the server. Throws a {@linkcode JetStreamError} when it is an error. */
export function readAnswer<T>(what: string, { headers, data }: NatsMessage): T {
  if (headers !== undefined && headers.code > 0) throw statusError(what, headers);
  const answer = JSON.parse(decoder.decode(data)) as {
    readonly error?: {
      readonly code: number;
      readonly err_code?: number;
      readonly description?: string;
    };
  };
  if (answer.error === undefined) return answer as T;
  const { code, err_code = code, description = `error ${code}` } = answer.error;
  throw new JetStreamError(what, err_code, description);
}

/** The fields of a stream's configuration that the engine reads. */
export interface StreamConfig {
  readonly name: string;
  readonly description?: string;
  readonly subjects?: readonly string[];
  readonly retention: string;
  readonly max_msgs: number;
  readonly max_msgs_per_subject: number;
  readonly discard: string;
}

/** The configuration of a stream to create or update. */
export interface StreamRequest {
  readonly name: string;
  readonly [option: string]: unknown;
}

/** A stream's configuration and state. */
export interface StreamInfo {
  readonly config: StreamConfig;
  readonly state: { readonly messages: number };
}

/** The fields of a consumer that the engine reads. Durations are nanoseconds. */
export interface ConsumerInfo {
  readonly config: {
    readonly ack_policy: string;
    readonly ack_wait: number;
    readonly max_deliver: number;
    readonly filter_subject?: string;
  };
  readonly delivered: { readonly stream_seq: number };
  /** All messages up to this one are acknowledged. */
  readonly ack_floor: { readonly stream_seq: number };
}

/** A message in a stream. */
export interface StreamMessage {
  readonly subject: string;
  readonly seq: number;
  readonly text: string;
  readonly time: string;
}

/** The JetStream API requests that the engine uses. Requests and answers are JSON. */
export class JetStream {
  readonly #calls: Calls;

  constructor(calls: Calls) {
    this.#calls = calls;
  }

  stream(what: string, name: string): Promise<StreamInfo> {
    return this.#request(what, `STREAM.INFO.${name}`);
  }

  createStream(what: string, config: StreamRequest): Promise<StreamInfo> {
    return this.#request(what, `STREAM.CREATE.${config.name}`, config);
  }

  updateStream(what: string, config: StreamRequest): Promise<StreamInfo> {
    return this.#request(what, `STREAM.UPDATE.${config.name}`, config);
  }

  /** Returns the names of the consumers of a stream. */
  async consumers(what: string, stream: string): Promise<readonly string[]> {
    const { consumers } = await this.#request<{ readonly consumers?: readonly string[] | null }>(
      what,
      `CONSUMER.NAMES.${stream}`,
    );
    return consumers ?? [];
  }

  consumer(what: string, stream: string, name: string): Promise<ConsumerInfo> {
    return this.#request(what, `CONSUMER.INFO.${stream}.${name}`);
  }

  createConsumer(what: string, stream: string, name: string, config: object): Promise<unknown> {
    const request = { stream_name: stream, config: { durable_name: name, ...config } };
    return this.#request(what, `CONSUMER.DURABLE.CREATE.${stream}.${name}`, request);
  }

  /**
   * Deletes all messages, or those of one subject, and returns how many. Do not use `filter` on a stream
   * with a consumer: NATS 2.9 then stops delivering messages stored before the deleted one.
   */
  async purge(what: string, stream: string, filter?: string): Promise<number> {
    const { purged } = await this.#request<{ readonly purged: number }>(
      what,
      `STREAM.PURGE.${stream}`,
      filter === undefined ? {} : { filter },
    );
    return purged;
  }

  /**
   * Deletes one message if it is still the same one. A recreated stream reuses sequence numbers, and the
   * server has no conditional delete, so this reads the message first.
   */
  async remove(
    what: string,
    stream: string,
    { seq, subject, time }: Pick<StreamMessage, "seq" | "subject"> & Partial<StreamMessage>,
  ): Promise<void> {
    const found = await this.get(what, stream, { last_by_subj: subject });
    if (found?.seq !== seq || (time ?? found.time) !== found.time) return;
    await this.#request(what, `STREAM.MSG.DELETE.${stream}`, { seq, no_erase: true });
  }

  /** Returns a message; undefined when there is none. */
  async get(
    what: string,
    stream: string,
    which:
      | { readonly seq: number; readonly next_by_subj: string }
      | { readonly last_by_subj: string },
  ): Promise<StreamMessage | undefined> {
    try {
      const { message } = await this.#request<
        { readonly message: Omit<StreamMessage, "text"> & { readonly data?: string } }
      >(what, `STREAM.MSG.GET.${stream}`, which);
      const { subject, seq, time, data = "" } = message;
      const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
      return { subject, seq, time, text: decoder.decode(bytes) };
    } catch (error) {
      if (error instanceof JetStreamError && error.code === NO_MESSAGE) return undefined;
      throw error;
    }
  }

  async #request<T>(what: string, subject: string, request?: object): Promise<T> {
    const payload = request === undefined ? "" : JSON.stringify(request);
    return readAnswer(what, await this.#calls.request(what, `$JS.API.${subject}`, payload));
  }
}
