import type { Delivery, StoredMessage } from "../../mailbox/engine.ts";
import type { StreamMessage } from "./_jetstream.ts";
import { type Leased, MARGIN_MS } from "./_leases.ts";
import { EMPTY_NOTE, type Note } from "./_notes.ts";
import type { NatsMessage } from "./nats_connection.ts";

const decoder = new TextDecoder();
const encoder = new TextEncoder();

/** The first line of a payload, as JSON. Version 0.1 stored the reply address, later ones the meta. */
type Head = readonly [
  id: string,
  replyTo?: string | null,
  delayMs?: number,
  checkpoint?: string | null,
  meta?: string,
];

/** The stored parts of a message. */
export interface Payload {
  readonly id: string;
  readonly body: string;
  readonly meta?: string | undefined;
  readonly delayMs: number;
  /** The checkpoint that the message was sent with. */
  readonly checkpoint?: string | undefined;
}

/**
 * Encodes a message as one line of metadata and the body. The metadata is JSON without line breaks. It is
 * not in NATS headers, which take no line breaks and need the client's package to be made.
 */
export function encodePayload({ id, body, meta, delayMs, checkpoint }: Payload): Uint8Array {
  const head: Head = meta !== undefined
    ? [id, null, Math.ceil(delayMs), checkpoint ?? null, meta]
    : checkpoint !== undefined
    ? [id, null, Math.ceil(delayMs), checkpoint]
    : delayMs > 0
    ? [id, null, Math.ceil(delayMs)]
    : [id];
  return encoder.encode(`${JSON.stringify(head)}\n${body}`);
}

/**
 * Parses a stored message. A message from another program has no metadata line, so all of it is the body.
 */
export function parsePayload(text: string, seq: number): Payload {
  const end = text.indexOf("\n");
  try {
    const head: unknown = JSON.parse(text.slice(0, end));
    if (end > 0 && isHead(head)) {
      const [id, replyTo, delayMs = 0, checkpoint, meta] = head;
      return {
        id,
        body: text.slice(end + 1),
        meta: meta ?? (typeof replyTo === "string" ? JSON.stringify({ replyTo }) : undefined),
        delayMs,
        checkpoint: checkpoint ?? undefined,
      };
    }
  } catch {
    // The message has no metadata line.
  }
  return { id: `stream-${seq}`, body: text, delayMs: 0 };
}

function isHead(head: unknown): head is Head {
  if (!Array.isArray(head)) return false;
  const [id, replyTo, delayMs, checkpoint, meta] = head;
  const areTexts = [replyTo, checkpoint, meta].every((it) => typeof (it ?? "") === "string");
  return typeof id === "string" && areTexts &&
    (delayMs === undefined || Number.isSafeInteger(delayMs) && delayMs >= 0);
}

/** Returns what a peek shows of a stored message. */
export function peeked(
  { text, seq, time }: StreamMessage,
  deliveryCount: number,
): StoredMessage<string> {
  const { id, body, meta } = parsePayload(text, seq);
  return { id, body, meta, deliveryCount, enqueuedAt: Date.parse(time) };
}

/** The positions of fields in an ack subject without a domain. */
const CONSUMER = 3;
const DELIVERIES = 4;
const SEQUENCE = 5;
const ORDER = 6;
const STORED_AT = 7;

/** A message that JetStream has delivered. */
export class NatsDelivery implements Delivery<string>, Leased {
  readonly id: string;
  readonly body: string;
  readonly meta: string | undefined;
  /** The subject that takes the acks of this delivery. */
  readonly ackSubject: string;
  /** The consumer that delivered the message. */
  readonly consumer: string;
  /** The sequence number in the stream. */
  readonly seq: number;
  /** When the message was stored, in nanoseconds since the Unix epoch. A number would lose digits. */
  readonly storedAt: string;
  readonly delayMs: number;
  /** How often the server has delivered the message, including deliveries that are no attempts. */
  readonly serverDeliveryCount: number;
  readonly receiptHandle: string;
  readonly #sentCheckpoint: string | undefined;
  note: Note = EMPTY_NOTE;

  place = -1;
  actionAt = 0;
  validUntil = 0;
  requestedUntil = 0;
  readonly marginMs: number = MARGIN_MS;

  constructor(message: NatsMessage) {
    const parts = message.reply!.split(".");
    const from = parts.length > 9 ? 2 : 0; // subjects of servers with a domain have two more parts
    this.ackSubject = message.reply!;
    this.consumer = parts[from + CONSUMER]!;
    this.serverDeliveryCount = Number(parts[from + DELIVERIES]);
    this.seq = Number(parts[from + SEQUENCE]);
    this.storedAt = parts[from + STORED_AT]!;
    this.receiptHandle = `${this.seq}-${parts[from + ORDER]}`;
    const payload = parsePayload(decoder.decode(message.data), this.seq);
    this.id = payload.id;
    this.body = payload.body;
    this.meta = payload.meta;
    this.delayMs = payload.delayMs;
    this.#sentCheckpoint = payload.checkpoint;
  }

  get enqueuedAt(): number {
    return Number(this.storedAt.slice(0, -6));
  }

  get deliveryCount(): number {
    // The first delivery of a delayed message only reads its delay and does not count as an attempt.
    const uncounted = this.note.uncounted + (this.delayMs > 0 ? 1 : 0);
    return Math.max(1, this.serverDeliveryCount - uncounted);
  }

  get checkpoint(): string | undefined {
    return this.note.checkpoint ?? this.#sentCheckpoint;
  }
}
