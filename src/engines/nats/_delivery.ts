import type { Delivery, Entry } from "../../mailbox/engine.ts";
import { type Leased, MARGIN_MS } from "./_leases.ts";
import type { NatsMessage } from "./nats_connection.ts";
import { EMPTY_NOTE, type Note } from "./_notes.ts";

const decoder = new TextDecoder();
const encoder = new TextEncoder();

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
  readonly replyTo: string | undefined;
  /** The subject that takes the acks of this delivery. */
  readonly ackSubject: string;
  /** The consumer that delivered the message. */
  readonly consumer: string;
  /** The sequence number in the stream. */
  readonly seq: number;
  /** When the message was stored, in nanoseconds since the Unix epoch. A number would lose digits. */
  readonly storedAt: string;
  readonly delayMs: number;
  /**
   * How often the server has delivered the message, including deliveries that do not count as attempts.
   */
  readonly serverDeliveryCount: number;
  readonly receipt: string;
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
    this.receipt = `${this.seq}-${parts[from + ORDER]}`;
    const { head, body } = parsePayload(decoder.decode(message.data), this.seq);
    this.id = head[0];
    this.replyTo = head[1] ?? undefined;
    this.delayMs = head[2] ?? 0;
    this.#sentCheckpoint = head[3];
    this.body = body;
  }

  get enqueuedAt(): number {
    return Number(this.storedAt.slice(0, -6));
  }

  get deliveryCount(): number {
    return Math.max(1, this.serverDeliveryCount - this.#uncountedFirst - this.note.uncounted);
  }

  get checkpoint(): string | undefined {
    return this.note.checkpoint ?? this.#sentCheckpoint;
  }

  /** The first delivery of a delayed message only reads its delay and does not count as an attempt. */
  get #uncountedFirst(): number {
    return this.delayMs > 0 ? 1 : 0;
  }
}

type Head = readonly [
  id: string,
  replyTo?: string | null,
  delayMs?: number,
  checkpoint?: string,
];

/** Encodes a message as one line of metadata and the body. The metadata is JSON without line breaks. */
export function encodePayload(
  { id, body, replyTo, delayMs, checkpoint }: Omit<Entry<string>, "dedup">,
): Uint8Array {
  const address = typeof replyTo === "object" ? replyTo.name : replyTo;
  const head: Head = checkpoint !== undefined
    ? [id, address ?? null, Math.ceil(delayMs), checkpoint]
    : delayMs > 0
    ? [id, address ?? null, Math.ceil(delayMs)]
    : address === undefined
    ? [id]
    : [id, address];
  return encoder.encode(`${JSON.stringify(head)}\n${body}`);
}

/**
 * Parses a stored message. A message from another program has no metadata line, so all of it is the body.
 */
export function parsePayload(
  text: string,
  seq: number,
): { readonly head: Head; readonly body: string } {
  const end = text.indexOf("\n");
  try {
    const head = JSON.parse(text.slice(0, end)) as Head;
    if (end > 0 && typeof head[0] === "string") return { head, body: text.slice(end + 1) };
  } catch {
    // The message has no metadata line.
  }
  return { head: [`stream-${seq}`], body: text };
}
