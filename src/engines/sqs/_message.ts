// A message in SQS: its attributes, how it is sent, and its delivery.

import { type Codec, jsonCodec } from "../../mailbox/codec.ts";
import type { Delivery, Entry, Maybe } from "../../mailbox/engine.ts";
import { InvalidParameterError, MailboxConnectionError } from "../../mailbox/errors.ts";
import type { BatchEntry, Outcome, SqsCalls } from "./sqs_client.ts";
import type { Queue } from "./_queue.ts";

/** The message attributes: the engine's own data, the envelope, and the checkpoint that a message was sent with. */
const HEAD = "lastcall";
const META = "lastcall-meta";
const CHECKPOINT = "lastcall-checkpoint";

/** The message attributes that the engine reads. */
export const ATTRIBUTES: readonly string[] = [HEAD, META, CHECKPOINT];

/** The longest delay that SQS supports. */
const MAX_DELAY_S = 900;

/** What the fields of a dead letter need besides the body and the envelope of its message, in bytes. */
export const LETTER_BYTES = 16_384;

/** The engine's own data of a message. */
interface Head {
  readonly id: string;
  /** When the message is due, by the sender's clock. SQS itself delays for at most 15 minutes. */
  readonly dueAt?: number;
  /** The texts that are stored as JSON strings, because SQS refuses them as they are. */
  readonly quoted?: readonly QuotedText[];
  /** The reply address of a message that version 0.1 sent. Later versions store it in the envelope. */
  readonly replyTo?: string;
}

/** A text that the codec of the user made, so that it may have any characters. */
type QuotedText = "body" | "checkpoint";

/** How a delivery was settled. A nack counts as a release: SQS has no difference. */
export type Settlement = "acknowledge" | "release";

/** A message as SQS delivers it. */
export interface ReceivedMessage {
  readonly MessageId: string;
  readonly ReceiptHandle: string;
  readonly Body?: string;
  readonly Attributes?: Readonly<Record<string, string>>;
  readonly MessageAttributes?: Readonly<Record<string, { readonly StringValue?: string }>>;
}

/** A received message. It tracks its own lease, because SQS does not report that a lease has expired. */
export class SqsDelivery implements Delivery<string> {
  readonly messageId: string;
  readonly receiptHandle: string;
  readonly id: string;
  readonly body: string;
  readonly meta: string | undefined;
  readonly deliveryCount: number;
  readonly enqueuedAt: number;
  /** The position in a FIFO queue, a number of many digits. */
  readonly sequence: string;
  readonly dueAt: number;
  checkpoint: string | undefined;
  /** Monotonic time of the request; for a long poll, of its answer. */
  readonly receivedAt: number;
  /** When the lease ends. Never later than on the service. */
  leaseEndsAt: number;
  /** How the delivery was settled, also when other entries of the same call failed. */
  settledBy: Settlement | undefined;
  /** A settlement without an answer. SQS may have carried it out. */
  unanswered: Settlement | undefined;
  /** True when the dead letter is stored and only the message remains to be removed. */
  deadLetterStored = false;

  constructor(message: ReceivedMessage, receivedAt: number, visibilityMs: number) {
    const { Attributes = {}, MessageAttributes } = message;
    const { id, dueAt, quoted = [], replyTo } = parseHead(message);
    const textOf = (name: QuotedText, text: string) => quoted.includes(name) ? unquote(text) : text;
    this.messageId = message.MessageId;
    this.receiptHandle = message.ReceiptHandle;
    this.id = id;
    this.body = textOf("body", message.Body ?? "");
    this.meta = MessageAttributes?.[META]?.StringValue ??
      (replyTo === undefined ? undefined : JSON.stringify({ replyTo }));
    this.dueAt = dueAt ?? 0;
    const checkpoint = MessageAttributes?.[CHECKPOINT]?.StringValue;
    this.checkpoint = checkpoint === undefined ? undefined : textOf("checkpoint", checkpoint);
    const received = Number(Attributes["ApproximateReceiveCount"] ?? 1);
    // The first delivery came before the message was due and does not count.
    this.deliveryCount = Math.max(1, dueAt === undefined ? received : received - 1);
    this.enqueuedAt = Number(Attributes["SentTimestamp"] ?? 0);
    this.sequence = Attributes["SequenceNumber"] ?? "";
    this.receivedAt = receivedAt;
    this.leaseEndsAt = receivedAt + visibilityMs;
  }

  /** True when the store may have a checkpoint: the message was delivered before, or was sent with one. */
  get mayHaveCheckpoint(): boolean {
    return this.deliveryCount > 1 || this.checkpoint !== undefined;
  }
}

/** Returns the message group of a message in a FIFO queue. */
export type GroupOf = (entry: Entry<string>) => Maybe<string>;

/**
 * Sends messages to a queue. When some fail, the others stay stored, and the error reports how many. SQS
 * drops a message of a FIFO queue whose `dedupId` it has seen within five minutes.
 */
export async function sendMessages(
  calls: SqsCalls,
  queue: Queue,
  entries: readonly Entry<string>[],
  groupOf: GroupOf,
  // A random id lets a program reuse its message ids: SQS drops duplicates also of acknowledged messages.
  dedupId: () => string = () => calls.random.id(),
): Promise<void> {
  const { name, url, fifo, maxMessageBytes } = queue;
  const groups = fifo ? await Promise.all(entries.map(groupOf)) : [];
  const outcomes = await calls.runInBatches({
    what: `send ("${name}")`,
    command: "SendMessageBatch",
    queueUrl: url,
    entries: entries.map((entry, i) => {
      const { input, bytes } = outgoing(entry, queue, calls.clock.now());
      const group = fifo ? { MessageGroupId: groups[i], MessageDeduplicationId: dedupId() } : {};
      return { bytes, input: { ...input, ...group } };
    }),
    maxBytes: maxMessageBytes,
    inOrder: fifo,
  });
  const failure = outcomes.find((it) => it !== undefined);
  if (failure === undefined) return;
  const stored = outcomes.filter((it) => it === undefined).length;
  const partly = stored === 0
    ? ""
    : `; ${stored} of ${entries.length} messages were stored and stay`;
  if (failure instanceof Error) {
    throw new MailboxConnectionError(`${failure.message}${partly}`, { cause: failure.cause });
  }
  throw new InvalidParameterError(`SQS refused a message for "${name}": ${failure.text}${partly}`);
}

/** Returns the request entry of a message and its size in bytes. */
function outgoing(
  { id, body, meta, delayMs, checkpoint }: Entry<string>,
  { name, fifo, maxMessageBytes }: Queue,
  now: number,
): Required<BatchEntry> {
  if (fifo && delayMs > 0) {
    throw new InvalidParameterError(
      `Invalid delayMs: "${name}" is a FIFO queue, where SQS cannot delay single messages; omit it, got ${delayMs}`,
    );
  }
  const delayS = Math.ceil(delayMs / 1_000);
  const texts = { body, ...(checkpoint === undefined ? {} : { checkpoint }) };
  const quoted = (Object.keys(texts) as QuotedText[]).filter((it) => !isPlain(texts[it]!));
  const head: Head = {
    id,
    ...(delayS > MAX_DELAY_S ? { dueAt: now + delayMs } : {}),
    ...(quoted.length === 0 ? {} : { quoted }),
  };
  const attributes = Object.entries({
    [HEAD]: plainJson(JSON.stringify(head)),
    ...(meta === undefined ? {} : { [META]: meta }),
    ...(checkpoint === undefined ? {} : { [CHECKPOINT]: storedText(checkpoint) }),
  }).map(([name, StringValue]) => [name, { DataType: "String", StringValue }] as const);
  const sizes = attributes.map(([name, { DataType, StringValue }]) => {
    return name.length + DataType.length + bytesOf(StringValue);
  });
  const MessageBody = storedText(body);
  const bytes = sizes.reduce((sum, size) => sum + size, bytesOf(MessageBody));
  if (bytes > maxMessageBytes) {
    throw new InvalidParameterError(
      `Message ${id} has ${bytes} bytes with its attributes, and "${name}" takes ${maxMessageBytes}; ` +
        "store its body elsewhere and send a reference",
    );
  }
  const input = { MessageBody, MessageAttributes: Object.fromEntries(attributes) };
  const delay = delayS === 0 ? {} : { DelaySeconds: Math.min(delayS, MAX_DELAY_S) };
  return { input: { ...input, ...delay }, bytes };
}

/** Parses the engine's own data. A message from another program has the id that SQS gave it. */
function parseHead({ MessageId, MessageAttributes }: ReceivedMessage): Head {
  try {
    const head = JSON.parse(MessageAttributes![HEAD]!.StringValue!) as Head;
    const { id, dueAt = 0, quoted = [], replyTo = "" } = head;
    const isDue = Number.isFinite(dueAt) && typeof replyTo === "string";
    if (typeof id === "string" && isDue && Array.isArray(quoted)) return head;
  } catch {
    // The message has no data of the engine.
  }
  return { id: MessageId };
}

/**
 * Records the outcomes of deliveries with an active lease. SQS refuses an unknown receipt handle. While
 * the lease is active, that means that an earlier request succeeded and its answer was lost.
 */
export function recordOutcomes(
  deliveries: readonly SqsDelivery[],
  outcomes: readonly Outcome[],
  how: Settlement,
): void {
  for (const [i, it] of deliveries.entries()) {
    const outcome = outcomes[i];
    if (outcome instanceof Error) it.unanswered = how;
    else if (outcome === undefined || it.unanswered === how) {
      it.settledBy = how;
      it.leaseEndsAt = -Infinity;
    }
  }
}

/**
 * Characters that SQS or a compatible service refuses. Most services accept characters outside the BMP,
 * but not all do. No service accepts noncharacters.
 */
const UNSUPPORTED = /[^\t\n\r -\uD7FF\uE000-\uFFFD]/g;

/** Returns true for a text that SQS stores as it is. It refuses an empty one. */
function isPlain(text: string): boolean {
  return text !== "" && text.search(UNSUPPORTED) < 0;
}

/** Returns a text, or the JSON of one that SQS refuses. */
function storedText(text: string): string {
  return isPlain(text) ? text : plainJson(JSON.stringify(text));
}

function unquote(text: string): string {
  try {
    return String(JSON.parse(text));
  } catch {
    return text; // not written by this package
  }
}

/** Escapes unsupported characters. In JSON they occur only in strings, so the value stays the same. */
function plainJson(json: string): string {
  return json.replace(
    UNSUPPORTED,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/**
 * Encodes bodies and envelopes as JSON that SQS accepts. Refuses headers that do not fit into a dead letter,
 * which has the envelope of its message twice: in its body and beside it.
 */
export function sqsCodec(maxBytes: number, maxMessageBytes: number): Codec<string> {
  const json = jsonCodec(maxBytes, maxMessageBytes);
  return {
    ...json,
    encode: (value) => plainJson(json.encode(value)),
    encodeMeta: (envelope) => plainJson(json.encodeMeta(envelope)),
    checkSize(body, meta) {
      const stored = storedText(body); // the codec of the user may return any text
      json.checkSize!(stored, meta);
      if (meta === undefined) return;
      const bytes = bytesOf(stored) + 2 * bytesOf(meta) + LETTER_BYTES;
      if (bytes <= maxMessageBytes) return;
      throw new InvalidParameterError(
        `The headers have ${
          bytesOf(meta)
        } bytes, and a dead letter of this message would have ${bytes} of at ` +
          `most ${maxMessageBytes}: send fewer headers, or store the body elsewhere and send a reference`,
      );
    },
  };
}

const encoder = new TextEncoder();

/** Returns the length of a text in UTF-8. */
function bytesOf(text: string): number {
  return encoder.encode(text).byteLength;
}
