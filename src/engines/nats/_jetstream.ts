// The requests of the JetStream API that the engine uses.
//
// `@nats-io/jetstream` 3.4 cannot carry the calls on messages; docs/engines.md ("NATS") has the figures:
// - Its `nak(ms)` is not confirmed, and its client drops a later ack. The engine's leases are delayed NAKs.
// - Its `fetch` waits for a full second when fewer messages are visible than were requested.
// - A stopped `fetch` loses the message in transit until `ack_wait` passes.
// - A call whose connection is lost rejects after its whole timeout.
// It could manage the streams, but that is too little for a second optional dependency.

import type { Calls } from "./_calls.ts";
import { JetStreamError, NO_MESSAGE, statusError } from "./_errors.ts";
import type { NatsMessage } from "./nats_connection.ts";

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
  readonly state: {
    readonly messages: number;
    readonly first_seq: number;
    /** The deleted sequence numbers between the first and the last one, ascending, if they were requested. */
    readonly deleted?: readonly number[] | null;
  };
}

/** The fields of a consumer that the engine reads. Durations are nanoseconds. */
export interface ConsumerInfo {
  readonly config: {
    readonly ack_policy: string;
    readonly ack_wait: number;
    readonly max_deliver: number;
    readonly filter_subject?: string;
  };
  /** How many messages were not delivered yet. */
  readonly num_pending: number;
  /** How many messages were delivered and not acknowledged. */
  readonly num_ack_pending: number;
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

  stream(
    what: string,
    name: string,
    request?: { readonly deleted_details: boolean },
  ): Promise<StreamInfo> {
    return this.#request(what, `STREAM.INFO.${name}`, request);
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
