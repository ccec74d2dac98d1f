import { backoffMs } from "../../_backoff.ts";
import { MailboxConnectionError } from "../../mailbox/errors.ts";
import {
  isMissing,
  isTransient,
  JetStreamError,
  NO_RESPONDERS,
  NoAnswerError,
  STREAM_NOT_FOUND,
} from "./_errors.ts";
import type { ConsumerInfo, StreamConfig, StreamInfo, StreamRequest } from "./_jetstream.ts";
import type { Queue } from "./_queue.ts";

/** The consumer name of streams that versions before 0.2 created. */
export const FIRST_CONSUMER = "lastcall";

/** The prefix of all other consumer names. */
const CONSUMERS = "lastcall_";

/** The description that marks a stream as ours and names its format. */
const FORMAT = "A mailbox of lastcall, format 1";

/**
 * How long the server hides a delivered message by default. It is short, because a delivery that is lost
 * with its connection reappears only then.
 */
const ACK_WAIT_MS = 30_000;

/** A shorter wait could pass before the engine extends the lease. */
const SHORTEST_ACK_WAIT_MS = 5_000;

/** The pauses between attempts to set up a mailbox. */
const RETRY_MIN_MS = 20;
const RETRY_MAX_MS = 500;

const MAX_WAITING = 10_000;
const NANOSECONDS = 1_000_000;

/** The consumer that delivers the messages of a mailbox. */
export interface FoundConsumer {
  readonly ackWaitMs: number;
  /**
   * The one consumer that all receivers of the stream share. Its name is random and part of every ack
   * subject. So an ack for a message of a deleted stream cannot reach the stream that replaced it, which
   * has the same sequence numbers.
   */
  readonly consumer: string;
}

/** What a set-up may create. */
type Part = "stream" | "stream of notes" | "consumer";

type Shape = StreamRequest & Omit<StreamConfig, "max_msgs">;

/**
 * The streams and the consumer of one mailbox: `unknown ─▶ found`. They become `unknown` again when a
 * call reports one as missing or gets no answer. A call in state `unknown` finds them first and creates
 * missing ones. It does not change those of other programs.
 */
export class Streams {
  readonly #queue: Queue;
  readonly #maxSize: number | undefined;
  readonly #onReplaced: () => void;
  #settingUp: Promise<FoundConsumer> | undefined;
  #consumer: string | undefined;

  /**
   * `maxSize: undefined` keeps the limit of an existing stream. `onReplaced` is called when the consumer
   * was replaced: acks for earlier deliveries have no effect then.
   */
  constructor(queue: Queue, maxSize: number | undefined, onReplaced: () => void) {
    this.#queue = queue;
    this.#maxSize = maxSize;
    this.#onReplaced = onReplaced;
  }

  /** The consumer that was found last. */
  get consumer(): string {
    return this.#consumer ?? "";
  }

  /** The subject that takes receive requests. */
  get requestSubject(): string {
    return `$JS.API.CONSUMER.MSG.NEXT.${this.#queue.names.stream}.${this.consumer}`;
  }

  /** Finds or creates the streams and the consumer. */
  ensure(): Promise<FoundConsumer> {
    return this.#settingUp ??= this.#setUp();
  }

  /** Runs a call, and repeats it once when a stream or the consumer was missing. */
  async use<T>(call: (found: FoundConsumer) => Promise<T>): Promise<T> {
    const settingUp = this.ensure();
    const found = await settingUp;
    try {
      return await call(found);
    } catch (error) {
      if (isMissing(error) || error instanceof NoAnswerError) this.#invalidate(settingUp);
      if (!isMissing(error)) throw error;
    }
    return await call(await this.ensure());
  }

  /**
   * Returns true when an ack failed because its consumer no longer exists. Asks the server if the error
   * does not tell.
   */
  async hasLostConsumer(consumer: string, error: unknown): Promise<boolean> {
    if (error instanceof NoAnswerError) this.#invalidate(this.#settingUp);
    if (!isMissing(error)) return false;
    if (consumer === this.#consumer) this.#invalidate(this.#settingUp);
    return (await this.ensure()).consumer !== consumer;
  }

  /** Makes the next call look for the streams, unless another call has done so since. */
  #invalidate(settingUp: Promise<FoundConsumer> | undefined): void {
    if (this.#settingUp === settingUp) this.#settingUp = undefined;
  }

  async #setUp(): Promise<FoundConsumer> {
    const { mailbox, log } = this.#queue;
    try {
      const created: Part[] = [];
      const found = await this.#retrying(() => {
        return this.#findOrCreateAll((part) => created.push(part));
      });
      const before = this.#consumer;
      this.#consumer = found.consumer;
      if (before === undefined) return found;
      if (before !== found.consumer) this.#onReplaced();
      for (const part of created) {
        const messagesLost = part === "stream";
        log.warn("created a missing part of a mailbox on NATS again", {
          mailbox,
          part,
          messagesLost,
        });
      }
      return found;
    } catch (error) {
      this.#settingUp = undefined;
      throw error;
    }
  }

  /** Repeats all steps after a transient error. Every step is repeatable. */
  async #retrying<T>(setUp: () => Promise<T>): Promise<T> {
    const { clock, random, client, connection } = this.#queue;
    const { callTimeoutMs } = connection.options;
    const startedAt = clock.monotonic();
    for (let attempt = 1;; attempt++) {
      try {
        return await setUp();
      } catch (error) {
        if (!isTransient(error)) throw error;
        const { jetstream = false } = client.info ?? { jetstream: true };
        if (error.code === NO_RESPONDERS && !jetstream) throw error; // the server says that it has none
        const pauseMs = backoffMs(attempt, RETRY_MIN_MS, RETRY_MAX_MS, random);
        if (clock.monotonic() - startedAt + pauseMs > callTimeoutMs) {
          const text = `${error.text} (${attempt} attempts in ${callTimeoutMs} ms)`;
          throw new JetStreamError(this.#queue.what("open"), error.code, text);
        }
        await clock.sleep(pauseMs);
      }
    }
  }

  async #findOrCreateAll(onCreate: (part: Part) => void): Promise<FoundConsumer> {
    const { names, jetStream } = this.#queue;
    const maxSize = this.#maxSize;
    const what = this.#queue.what("open");
    const shared = {
      description: FORMAT,
      storage: "file",
      num_replicas: this.#queue.connection.options.replicas,
      max_msgs_per_subject: 1,
    };
    const config = await this.#stream("stream", onCreate, {
      ...shared,
      name: names.stream,
      subjects: [`${names.subjects}*`],
      retention: "workqueue",
      // The first message of a subject stays: the server does not store a duplicate id.
      discard: "new",
      discard_new_per_subject: true,
      max_msgs: limitOf(maxSize),
    });
    if (maxSize !== undefined && config.max_msgs !== limitOf(maxSize)) {
      await jetStream.updateStream(what, { ...config, max_msgs: limitOf(maxSize) });
    }
    await this.#stream("stream of notes", onCreate, {
      ...shared,
      name: names.notes,
      subjects: [`${names.noteSubjects}*`],
      retention: "limits",
      discard: "old",
    });
    const consumer = await findOrCreate(
      async () => {
        const all = await jetStream.consumers(what, names.stream);
        return all.find((name) => name === FIRST_CONSUMER || name.startsWith(CONSUMERS));
      },
      async () => {
        const name = `${CONSUMERS}${this.#queue.random.id()}`;
        await jetStream.createConsumer(what, names.stream, name, {
          ack_policy: "explicit",
          deliver_policy: "all",
          replay_policy: "instant",
          ack_wait: ACK_WAIT_MS * NANOSECONDS,
          max_deliver: -1,
          max_ack_pending: -1,
          max_waiting: MAX_WAITING,
        });
        onCreate("consumer");
        return name;
      },
    );
    const info = await jetStream.consumer(what, names.stream, consumer);
    return { ackWaitMs: this.#checkConsumer(consumer, info), consumer };
  }

  /** Finds or creates a stream of this shape. */
  async #stream(
    part: Part,
    onCreate: (part: Part) => void,
    shape: Shape,
  ): Promise<StreamInfo["config"]> {
    const { jetStream } = this.#queue;
    const what = this.#queue.what("open");
    const { config } = await findOrCreate(async () => {
      try {
        return await jetStream.stream(what, shape.name);
      } catch (error) {
        if (error instanceof JetStreamError && error.code === STREAM_NOT_FOUND) return undefined;
        throw error;
      }
    }, async () => {
      const stream = await jetStream.createStream(what, shape);
      onCreate(part);
      return stream;
    });
    const fields = ["description", "retention", "max_msgs_per_subject", "discard"] as const;
    const other = fields.find((field) => config[field] !== shape[field]) ??
      (`${config.subjects}` === `${shape.subjects}` ? undefined : "subjects");
    if (other === undefined) return config;
    throw this.#foreignError(`the stream "${shape.name}" has an unexpected ${other}`);
  }

  #checkConsumer(name: string, { config }: ConsumerInfo): number {
    const { ack_policy, ack_wait, max_deliver, filter_subject = "" } = config;
    const ackWaitMs = ack_wait / NANOSECONDS;
    if (
      ack_policy === "explicit" && max_deliver === -1 && filter_subject === "" &&
      ackWaitMs >= SHORTEST_ACK_WAIT_MS
    ) return ackWaitMs;
    const { stream } = this.#queue.names;
    throw this.#foreignError(
      `the consumer "${name}" of the stream "${stream}" has unexpected settings`,
    );
  }

  #foreignError(found: string): MailboxConnectionError {
    return new MailboxConnectionError(
      `Cannot open mailbox "${this.#queue.mailbox}": ${found}, so another program created it. It was ` +
        "left alone; choose another mailbox name",
    );
  }
}

/**
 * Finds or creates a part of the mailbox. When processes create it at the same time, all but one find it.
 */
async function findOrCreate<T>(
  find: () => Promise<T | undefined>,
  create: () => Promise<T>,
): Promise<T> {
  const found = await find();
  if (found !== undefined) return found;
  try {
    return await create();
  } catch (error) {
    // Another process may have created it with other settings.
    if (!(error instanceof JetStreamError)) throw error;
    const createdElsewhere = await find().catch(() => undefined);
    if (createdElsewhere === undefined) throw error;
    return createdElsewhere;
  }
}

/** The server has no limit of 0, so the engine checks that one. */
function limitOf(maxSize: number | undefined): number {
  return maxSize === undefined || maxSize === Infinity ? -1 : Math.max(maxSize, 1);
}
