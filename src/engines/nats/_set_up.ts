import { backoffMs } from "../../_backoff.ts";
import type { Clock } from "../../clock.ts";
import { MailboxConnectionError } from "../../mailbox/errors.ts";
import { isTransient, JetStreamError, NO_RESPONDERS, STREAM_NOT_FOUND } from "./_errors.ts";
import type { ConsumerConfig, JetStream, StreamConfig, StreamInfo } from "./_jetstream.ts";
import type { Names } from "./_names.ts";

/** What the consumer of a stream is called that a version before 0.2 has made. */
export const FIRST_CONSUMER = "lastcall";

/** What the names of all other consumers begin with. */
const CONSUMERS = "lastcall_";

/** What says that a stream is ours, and how it is to be read. */
const FORMAT = "A mailbox of lastcall, format 1";

/**
 * How long the server keeps a message for whoever it was delivered to, unless it is told otherwise. It
 * is short, because an answer that is lost with its connection comes again only after it.
 */
const ACK_WAIT_MS = 30_000;

/** With less, a lease could not be made to last before it has ended. */
const SHORTEST_ACK_WAIT_MS = 5_000;

/** The pauses between attempts to set a mailbox up. */
const RETRY_MIN_MS = 20;
const RETRY_MAX_MS = 500;

const MANY = 10_000;
const NANOSECONDS = 1_000_000;

/** How to make a mailbox that is not there. */
export interface SetUpOptions {
  /** Undefined leaves the limit as it is. */
  readonly maxSize: number | undefined;
  readonly replicas: number;
  readonly clock: Clock;
  /** Transient answers are retried for this long. */
  readonly retryMs: number;
  /** False when the server has said that it has no JetStream: then it will not answer later either. */
  readonly hasJetStream: boolean;
}

/** What a mailbox has on the server. */
export type Part = "stream" | "stream of notes" | "consumer";

/** What is known of a mailbox on the server. */
export interface Found {
  readonly ackWaitMs: number;
  /**
   * All who take messages from the stream do so by this one consumer. Its name is made up with it and never
   * comes again, and the subject of every verdict has it: so a verdict about a message of a stream that was
   * deleted is not heard by the stream that was made since, whose messages have the same numbers.
   */
  readonly consumer: string;
  /** What was not there. */
  readonly made: readonly Part[];
}

/**
 * Finds the streams and the consumer of a mailbox, or makes them. What was made by something else is
 * left alone. Every step may be repeated, so a transient answer repeats all of them after a pause.
 */
export async function setUp(
  mailbox: string,
  names: Names,
  jetStream: JetStream,
  options: SetUpOptions,
): Promise<Found> {
  const { clock, retryMs, hasJetStream } = options;
  const what = `open ("${mailbox}")`;
  const startedAt = clock.monotonic();
  for (let attempt = 1;; attempt++) {
    try {
      return await attemptSetUp(what, mailbox, names, jetStream, options);
    } catch (error) {
      if (!isTransient(error)) throw error;
      if (error.code === NO_RESPONDERS && !hasJetStream) throw error;
      const pauseMs = backoffMs(attempt, RETRY_MIN_MS, RETRY_MAX_MS);
      if (clock.monotonic() - startedAt + pauseMs > retryMs) {
        const { code, text } = error;
        throw new JetStreamError(what, code, `${text} (${attempt} attempts in ${retryMs} ms)`);
      }
      await clock.sleep(pauseMs);
    }
  }
}

async function attemptSetUp(
  what: string,
  mailbox: string,
  names: Names,
  jetStream: JetStream,
  options: SetUpOptions,
): Promise<Found> {
  const made: Part[] = [];
  const shape = {
    name: names.stream,
    description: FORMAT,
    subjects: [`${names.subjects}*`],
    retention: "workqueue",
    storage: "file",
    num_replicas: options.replicas,
    // One message for each subject, and the first one stays: so an id that is there is not stored again.
    max_msgs_per_subject: 1,
    discard: "new",
    discard_new_per_subject: true,
    max_msgs: -1,
  };
  const { config } = await findOrMake(
    () => orUndefined(jetStream.stream(what, names.stream)),
    async () => {
      const limited = { ...shape, max_msgs: limitOf(options.maxSize) };
      const created = await jetStream.createStream(what, limited);
      made.push("stream");
      return created;
    },
  );
  checkStream(mailbox, shape, config);
  if (options.maxSize !== undefined && config.max_msgs !== limitOf(options.maxSize)) {
    await jetStream.updateStream(what, { ...config, max_msgs: limitOf(options.maxSize) });
  }
  const notes = {
    name: names.notes,
    description: FORMAT,
    subjects: [`${names.noteSubjects}*`],
    retention: "limits",
    storage: "file",
    num_replicas: options.replicas,
    max_msgs_per_subject: 1,
    discard: "old",
  };
  const found = await findOrMake(
    () => orUndefined(jetStream.stream(what, names.notes)),
    async () => {
      const created = await jetStream.createStream(what, notes);
      made.push("stream of notes");
      return created;
    },
  );
  checkStream(mailbox, notes, found.config);
  const consumer = await findOrMake(
    async () => {
      const all = await jetStream.consumers(what, names.stream);
      return all.find((name) => name === FIRST_CONSUMER || name.startsWith(CONSUMERS));
    },
    async () => {
      const name = `${CONSUMERS}${crypto.randomUUID()}`;
      await jetStream.createConsumer(what, names.stream, name, {
        ack_policy: "explicit",
        deliver_policy: "all",
        replay_policy: "instant",
        ack_wait: ACK_WAIT_MS * NANOSECONDS,
        max_deliver: -1,
        max_ack_pending: -1,
        max_waiting: MANY,
      });
      made.push("consumer");
      return name;
    },
  );
  const consumerConfig = await jetStream.consumer(what, names.stream, consumer);
  return {
    ackWaitMs: checkConsumer(mailbox, names.stream, consumer, consumerConfig),
    consumer,
    made,
  };
}

/** Of several that make it at once all but one find it. */
async function findOrMake<T>(
  find: () => Promise<T | undefined>,
  make: () => Promise<T>,
): Promise<T> {
  const found = await find();
  if (found !== undefined) return found;
  try {
    return await make();
  } catch (error) {
    // With another limit, number of replicas or name it could not be made again, but it is there.
    if (!(error instanceof JetStreamError)) throw error;
    const madeByOther = await find().catch(() => undefined);
    if (madeByOther === undefined) throw error;
    return madeByOther;
  }
}

async function orUndefined(stream: Promise<StreamInfo>): Promise<StreamInfo | undefined> {
  try {
    return await stream;
  } catch (error) {
    if (error instanceof JetStreamError && error.code === STREAM_NOT_FOUND) return undefined;
    throw error;
  }
}

/** The server knows no limit of nothing; see the engine. */
function limitOf(maxSize: number | undefined): number {
  return maxSize === undefined || maxSize === Infinity ? -1 : Math.max(maxSize, 1);
}

type Shape = Pick<
  StreamConfig,
  "name" | "description" | "subjects" | "retention" | "max_msgs_per_subject" | "discard"
>;

function checkStream(mailbox: string, shape: Shape, found: StreamInfo["config"]): void {
  const parts = ["description", "retention", "max_msgs_per_subject", "discard"] as const;
  const other = parts.find((part) => found[part] !== shape[part]) ??
    (`${found.subjects}` === `${shape.subjects}` ? undefined : "subjects");
  if (other === undefined) return;
  throw notOurs(mailbox, `the stream "${shape.name}" has another ${other}`);
}

function checkConsumer(
  mailbox: string,
  stream: string,
  name: string,
  found: ConsumerConfig,
): number {
  const { ack_policy, ack_wait, max_deliver, filter_subject = "" } = found;
  const ackWaitMs = ack_wait / NANOSECONDS;
  if (
    ack_policy === "explicit" && max_deliver === -1 && filter_subject === "" &&
    ackWaitMs >= SHORTEST_ACK_WAIT_MS
  ) return ackWaitMs;
  throw notOurs(mailbox, `the consumer "${name}" of the stream "${stream}" is another one`);
}

function notOurs(mailbox: string, found: string): MailboxConnectionError {
  return new MailboxConnectionError(
    `Mailbox "${mailbox}" cannot be opened: ${found}, so it was made by something else; it is left ` +
      "alone, choose another name",
  );
}
