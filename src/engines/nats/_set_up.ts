import { backoffMs } from "../../_backoff.ts";
import type { Clock } from "../../clock.ts";
import { MailboxConnectionError } from "../../mailbox/errors.ts";
import { isTransient, JetStreamError, NO_RESPONDERS, STREAM_NOT_FOUND } from "./_errors.ts";
import type { ConsumerConfig, JetStream, StreamConfig, StreamInfo } from "./_jetstream.ts";
import type { Names } from "./_names.ts";

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

/** How to set up a mailbox. */
export interface SetUpOptions {
  /** Undefined keeps the current limit. */
  readonly maxSize: number | undefined;
  readonly replicas: number;
  readonly clock: Clock;
  /** How long transient errors are retried, in milliseconds. */
  readonly retryMs: number;
  /** False when the server reports that it has no JetStream. Retries are useless then. */
  readonly hasJetStream: boolean;
}

export type StreamPart = "stream" | "stream of notes" | "consumer";

/** A mailbox on the server. */
export interface SetUpResult {
  readonly ackWaitMs: number;
  /**
   * The one consumer that all receivers of the stream share. Its name is random and part of every ack
   * subject. So an ack for a message of a deleted stream cannot reach the stream that replaced it, which
   * has the same sequence numbers.
   */
  readonly consumer: string;
  /** What was missing and has been created. */
  readonly created: readonly StreamPart[];
}

/**
 * Finds or creates the streams and the consumer of a mailbox. Does not change those of other programs.
 * Every step is repeatable, so a transient error repeats all of them after a pause.
 */
export async function setUp(
  mailbox: string,
  names: Names,
  jetStream: JetStream,
  options: SetUpOptions,
): Promise<SetUpResult> {
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
): Promise<SetUpResult> {
  const created: StreamPart[] = [];
  const shape = {
    name: names.stream,
    description: FORMAT,
    subjects: [`${names.subjects}*`],
    retention: "workqueue",
    storage: "file",
    num_replicas: options.replicas,
    // One message per subject, and the first one stays: the server does not store a duplicate id.
    max_msgs_per_subject: 1,
    discard: "new",
    discard_new_per_subject: true,
    max_msgs: -1,
  };
  const { config } = await findOrCreate(
    () => orUndefined(jetStream.stream(what, names.stream)),
    async () => {
      const limited = { ...shape, max_msgs: limitOf(options.maxSize) };
      const stream = await jetStream.createStream(what, limited);
      created.push("stream");
      return stream;
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
  const found = await findOrCreate(
    () => orUndefined(jetStream.stream(what, names.notes)),
    async () => {
      const stream = await jetStream.createStream(what, notes);
      created.push("stream of notes");
      return stream;
    },
  );
  checkStream(mailbox, notes, found.config);
  const consumer = await findOrCreate(
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
        max_waiting: MAX_WAITING,
      });
      created.push("consumer");
      return name;
    },
  );
  const consumerConfig = await jetStream.consumer(what, names.stream, consumer);
  return {
    ackWaitMs: checkConsumer(mailbox, names.stream, consumer, consumerConfig),
    consumer,
    created,
  };
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

async function orUndefined(stream: Promise<StreamInfo>): Promise<StreamInfo | undefined> {
  try {
    return await stream;
  } catch (error) {
    if (error instanceof JetStreamError && error.code === STREAM_NOT_FOUND) return undefined;
    throw error;
  }
}

/** The server has no limit of 0, so the engine checks that one. */
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
  throw foreignError(mailbox, `the stream "${shape.name}" has an unexpected ${other}`);
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
  throw foreignError(
    mailbox,
    `the consumer "${name}" of the stream "${stream}" has unexpected settings`,
  );
}

function foreignError(mailbox: string, found: string): MailboxConnectionError {
  return new MailboxConnectionError(
    `Cannot open mailbox "${mailbox}": ${found}, so another program created it. It was ` +
      "left alone; choose another mailbox name",
  );
}
