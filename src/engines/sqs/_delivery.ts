import { type Codec, jsonCodec } from "../../mailbox/codec.ts";
import type { Delivery, Entry } from "../../mailbox/engine.ts";
import type { Outcome } from "./_batches.ts";

/** The message attributes with our metadata and with the checkpoint that a message was sent with. */
const HEAD = "lastcall";
const CHECKPOINT = "lastcall-checkpoint";

/** The message attributes that the engine reads. */
export const ATTRIBUTES: readonly string[] = [HEAD, CHECKPOINT];

/** Metadata that SQS does not store itself. */
interface Head {
  readonly id: string;
  readonly replyTo?: string;
  /** When the message is due, by the sender's clock. SQS itself delays for at most 15 minutes. */
  readonly dueAt?: number;
}

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
  readonly receipt: string;
  readonly id: string;
  readonly body: string;
  readonly deliveryCount: number;
  readonly enqueuedAt: number;
  readonly replyTo: string | undefined;
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
    const { Attributes = {} } = message;
    const head = parseHead(message);
    this.messageId = message.MessageId;
    this.receipt = message.ReceiptHandle;
    this.id = head.id;
    this.body = message.Body ?? "";
    this.replyTo = head.replyTo;
    this.dueAt = head.dueAt ?? 0;
    this.checkpoint = message.MessageAttributes?.[CHECKPOINT]?.StringValue;
    const received = Number(Attributes["ApproximateReceiveCount"] ?? 1);
    // The first delivery came before the message was due and does not count.
    this.deliveryCount = Math.max(1, head.dueAt === undefined ? received : received - 1);
    this.enqueuedAt = Number(Attributes["SentTimestamp"] ?? 0);
    this.receivedAt = receivedAt;
    this.leaseEndsAt = receivedAt + visibilityMs;
  }

  /**
   * True when the store may have a checkpoint: the message was delivered before, or was sent with one.
   */
  get mayHaveCheckpoint(): boolean {
    return this.deliveryCount > 1 || this.checkpoint !== undefined;
  }
}

/** Returns the request entry of a message and its size in bytes. */
export function outgoing(
  { id, body, replyTo, checkpoint }: Omit<Entry<string>, "delayMs" | "dedup">,
  dueAt: number | undefined,
): { readonly input: object; readonly bytes: number } {
  const address = typeof replyTo === "object" ? replyTo.name : replyTo;
  const head: Head = {
    id,
    ...(address === undefined ? {} : { replyTo: address }),
    ...(dueAt === undefined ? {} : { dueAt }),
  };
  const values = {
    [HEAD]: plainJson(JSON.stringify(head)),
    ...(checkpoint === undefined ? {} : { [CHECKPOINT]: checkpoint }),
  };
  const attributes = Object.entries(values).map(([name, StringValue]) => {
    return [name, { DataType: "String", StringValue }] as const;
  });
  const sizes = attributes.map(([name, { DataType, StringValue }]) => {
    return name.length + DataType.length + bytesOf(StringValue);
  });
  return {
    input: { MessageBody: body, MessageAttributes: Object.fromEntries(attributes) },
    bytes: sizes.reduce((sum, size) => sum + size, bytesOf(body)),
  };
}

/** Parses the metadata. A message from another program has the id that SQS gave it. */
function parseHead({ MessageId, MessageAttributes }: ReceivedMessage): Head {
  try {
    const head = JSON.parse(MessageAttributes![HEAD]!.StringValue!) as Head;
    if (typeof head.id === "string") return head;
  } catch {
    // The message has no metadata of ours.
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

/** Escapes unsupported characters. In JSON they occur only in strings, so the value stays the same. */
export function plainJson(json: string): string {
  return json.replace(
    UNSUPPORTED,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** Encodes bodies as JSON that SQS accepts. */
export function sqsCodec(maxBytes: number, engineMaxBytes: number): Codec<string> {
  const json = jsonCodec(maxBytes, engineMaxBytes);
  return { ...json, encode: (value) => plainJson(json.encode(value)) };
}

const encoder = new TextEncoder();

/** Returns the length of a text in UTF-8. */
export function bytesOf(text: string): number {
  return encoder.encode(text).byteLength;
}
