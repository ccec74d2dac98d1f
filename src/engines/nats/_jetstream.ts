import type { Calls } from "./_calls.ts";
import { JetStreamError } from "./_errors.ts";

/** What of a stream's configuration is looked at. */
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

/** What a stream is to be like. */
export interface StreamRequest {
  readonly name: string;
  readonly [option: string]: unknown;
}

/** A stream as it is. */
export interface StreamInfo {
  readonly config: StreamConfig;
  readonly state: { readonly messages: number };
}

/** What of a consumer's configuration is looked at. Durations are nanoseconds. */
export interface ConsumerConfig {
  readonly ack_policy: string;
  readonly ack_wait: number;
  readonly max_deliver: number;
  readonly filter_subject?: string;
}

/** How far a consumer has come, by numbers in the stream. */
export interface ConsumerProgress {
  readonly delivered: { readonly stream_seq: number };
  /** All up to this one are done. */
  readonly ack_floor: { readonly stream_seq: number };
}

/** A message as it lies in a stream, in Base64. */
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

/** The part of JetStream's interface that is used: requests and answers in JSON. */
export class JetStream {
  readonly #calls: Calls;

  constructor(calls: Calls) {
    this.#calls = calls;
  }

  stream(what: string, name: string): Promise<StreamInfo> {
    return this.#ask(what, `STREAM.INFO.${name}`);
  }

  createStream(what: string, config: StreamRequest): Promise<StreamInfo> {
    return this.#ask(what, `STREAM.CREATE.${config.name}`, config);
  }

  updateStream(what: string, config: StreamRequest): Promise<StreamInfo> {
    return this.#ask(what, `STREAM.UPDATE.${config.name}`, config);
  }

  async consumer(what: string, stream: string, name: string): Promise<ConsumerConfig> {
    const answer = await this.#ask<{ readonly config: ConsumerConfig }>(
      what,
      `CONSUMER.INFO.${stream}.${name}`,
    );
    return answer.config;
  }

  /** The names of the consumers of a stream. */
  async consumers(what: string, stream: string): Promise<readonly string[]> {
    const answer = await this.#ask<{ readonly consumers?: readonly string[] | null }>(
      what,
      `CONSUMER.NAMES.${stream}`,
    );
    return answer.consumers ?? [];
  }

  /** How far a consumer has come. */
  progress(what: string, stream: string, name: string): Promise<ConsumerProgress> {
    return this.#ask(what, `CONSUMER.INFO.${stream}.${name}`);
  }

  async createConsumer(
    what: string,
    stream: string,
    name: string,
    config: object,
  ): Promise<ConsumerConfig> {
    const answer = await this.#ask<{ readonly config: ConsumerConfig }>(
      what,
      `CONSUMER.DURABLE.CREATE.${stream}.${name}`,
      { stream_name: stream, config: { durable_name: name, ...config } },
    );
    return answer.config;
  }

  /**
   * Deletes all messages, or those of one subject, and tells how many. NATS 2.9 does not deliver any more
   * what comes before one that was deleted by its subject: not for a stream that has a consumer.
   */
  async purge(what: string, stream: string, filter?: string): Promise<number> {
    const { purged } = await this.#ask<{ readonly purged: number }>(
      what,
      `STREAM.PURGE.${stream}`,
      filter === undefined ? {} : { filter },
    );
    return purged;
  }

  /**
   * Deletes one message, if it is still there: a stream that was made again has another one under the same
   * number. There is no such request to the server, so this looks first.
   */
  async remove(
    what: string,
    stream: string,
    { seq, subject, time }: Pick<StoredMessage, "seq" | "subject"> & Partial<StoredMessage>,
  ): Promise<void> {
    const found = await this.get(what, stream, { last_by_subj: subject });
    if (found.seq !== seq || (time ?? found.time) !== found.time) return;
    await this.#ask(what, `STREAM.MSG.DELETE.${stream}`, { seq, no_erase: true });
  }

  async get(
    what: string,
    stream: string,
    which:
      | { readonly seq: number; readonly next_by_subj?: string }
      | { readonly last_by_subj: string },
  ): Promise<StoredMessage> {
    const answer = await this.#ask<{ readonly message: StoredMessage }>(
      what,
      `STREAM.MSG.GET.${stream}`,
      which,
    );
    return answer.message;
  }

  async #ask<T>(what: string, subject: string, request?: object): Promise<T> {
    const payload = request === undefined ? "" : JSON.stringify(request);
    const { data } = await this.#calls.ask(what, `$JS.API.${subject}`, payload);
    const answer = JSON.parse(decoder.decode(data)) as Answer;
    if (answer.error === undefined) return answer as T;
    const { code, err_code = code, description = `error ${code}` } = answer.error;
    throw new JetStreamError(what, err_code, description);
  }
}

/** The text of a stored message. */
export function textOf({ data = "" }: StoredMessage): string {
  return decoder.decode(Uint8Array.from(atob(data), (character) => character.charCodeAt(0)));
}
