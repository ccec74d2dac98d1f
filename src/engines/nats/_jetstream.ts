import type { Calls } from "./_calls.ts";
import { JetStreamError } from "./_errors.ts";

/** The fields of a stream's configuration that the engine reads. */
export interface StreamConfig {
  readonly name: string;
  readonly description?: string;
  readonly subjects?: readonly string[];
  readonly retention: string;
  readonly max_msgs: number;
  readonly max_msgs_per_subject: number;
  readonly discard: string;
  readonly discard_new_per_subject?: boolean;
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

/** The fields of a consumer's configuration that the engine reads. Durations are nanoseconds. */
export interface ConsumerConfig {
  readonly ack_policy: string;
  readonly ack_wait: number;
  readonly max_deliver: number;
  readonly filter_subject?: string;
}

/** The position of a consumer, as sequence numbers of the stream. */
export interface ConsumerState {
  readonly delivered: { readonly stream_seq: number };
  /** All messages up to this one are acknowledged. */
  readonly ack_floor: { readonly stream_seq: number };
}

/** A stored message; `data` is Base64. */
export interface StoredMessage {
  readonly subject: string;
  readonly seq: number;
  readonly data?: string;
  readonly time: string;
}

interface Answer {
  readonly error?: {
    readonly code: number;
    readonly err_code?: number;
    readonly description?: string;
  };
}

const decoder = new TextDecoder();

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

  async consumer(what: string, stream: string, name: string): Promise<ConsumerConfig> {
    const answer = await this.#request<{ readonly config: ConsumerConfig }>(
      what,
      `CONSUMER.INFO.${stream}.${name}`,
    );
    return answer.config;
  }

  /** Returns the names of the consumers of a stream. */
  async consumers(what: string, stream: string): Promise<readonly string[]> {
    const answer = await this.#request<{ readonly consumers?: readonly string[] | null }>(
      what,
      `CONSUMER.NAMES.${stream}`,
    );
    return answer.consumers ?? [];
  }

  /** Returns the position of a consumer. */
  consumerState(what: string, stream: string, name: string): Promise<ConsumerState> {
    return this.#request(what, `CONSUMER.INFO.${stream}.${name}`);
  }

  async createConsumer(
    what: string,
    stream: string,
    name: string,
    config: object,
  ): Promise<ConsumerConfig> {
    const answer = await this.#request<{ readonly config: ConsumerConfig }>(
      what,
      `CONSUMER.DURABLE.CREATE.${stream}.${name}`,
      { stream_name: stream, config: { durable_name: name, ...config } },
    );
    return answer.config;
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
    { seq, subject, time }: Pick<StoredMessage, "seq" | "subject"> & Partial<StoredMessage>,
  ): Promise<void> {
    const found = await this.get(what, stream, { last_by_subj: subject });
    if (found.seq !== seq || (time ?? found.time) !== found.time) return;
    await this.#request(what, `STREAM.MSG.DELETE.${stream}`, { seq, no_erase: true });
  }

  async get(
    what: string,
    stream: string,
    which:
      | { readonly seq: number; readonly next_by_subj?: string }
      | { readonly last_by_subj: string },
  ): Promise<StoredMessage> {
    const answer = await this.#request<{ readonly message: StoredMessage }>(
      what,
      `STREAM.MSG.GET.${stream}`,
      which,
    );
    return answer.message;
  }

  async #request<T>(what: string, subject: string, request?: object): Promise<T> {
    const payload = request === undefined ? "" : JSON.stringify(request);
    const { data } = await this.#calls.request(what, `$JS.API.${subject}`, payload);
    const answer = JSON.parse(decoder.decode(data)) as Answer;
    if (answer.error === undefined) return answer as T;
    const { code, err_code = code, description = `error ${code}` } = answer.error;
    throw new JetStreamError(what, err_code, description);
  }
}

/** Decodes the text of a stored message. */
export function textOf({ data = "" }: StoredMessage): string {
  return decoder.decode(Uint8Array.from(atob(data), (character) => character.charCodeAt(0)));
}
