import type { Delivery, Entry } from "../../mailbox/engine.ts";
import { type Leased, MARGIN_MS } from "./_leases.ts";
import type { NatsMessage } from "./nats_connection.ts";
import { type Note, NOTHING_NOTED } from "./_notes.ts";

const decoder = new TextDecoder();
const encoder = new TextEncoder();

/** The parts of the subject that settles a delivery, counted from its fixed part. */
const CONSUMER = 3;
const DELIVERIES = 4;
const SEQUENCE = 5;
const ORDER = 6;
const STORED_AT = 7;

/** A message that was taken from JetStream. */
export class NatsDelivery implements Delivery<string>, Leased {
  readonly id: string;
  readonly body: string;
  readonly replyTo: string | undefined;
  /** Where it is settled. */
  readonly ackSubject: string;
  /** Through which it was delivered, and is settled. */
  readonly consumer: string;
  /** Its number in the stream. */
  readonly seq: number;
  /** When it was stored, in nanoseconds since the Unix epoch; exact only as text. */
  readonly storedAt: string;
  readonly delayMs: number;
  /** How often the server has delivered it, for whatever reason. */
  readonly rawCount: number;
  readonly receipt: string;
  readonly #sentWith: string | undefined;
  note: Note = NOTHING_NOTED;

  place = -1;
  attendAt = 0;
  heldUntil = 0;
  wantedUntil = 0;
  readonly marginMs: number = MARGIN_MS;

  constructor(message: NatsMessage) {
    const parts = message.reply!.split(".");
    const from = parts.length > 9 ? 2 : 0; // servers with a domain have two parts more
    this.ackSubject = message.reply!;
    this.consumer = parts[from + CONSUMER]!;
    this.rawCount = Number(parts[from + DELIVERIES]);
    this.seq = Number(parts[from + SEQUENCE]);
    this.storedAt = parts[from + STORED_AT]!;
    this.receipt = `${this.seq}-${parts[from + ORDER]}`;
    const { head, body } = contentOf(decoder.decode(message.data), this.seq);
    this.id = head[0];
    this.replyTo = head[1] ?? undefined;
    this.delayMs = head[2] ?? 0;
    this.#sentWith = head[3];
    this.body = body;
  }

  get enqueuedAt(): number {
    return Number(this.storedAt.slice(0, -6));
  }

  get deliveryCount(): number {
    return Math.max(1, this.rawCount - this.#firstCounted - this.note.free);
  }

  get checkpoint(): string | undefined {
    return this.note.progress ?? this.#sentWith;
  }

  /** The first delivery of a delayed message only tells how long it has to wait. */
  get #firstCounted(): number {
    return this.delayMs > 0 ? 1 : 0;
  }
}

type Head = readonly [
  id: string,
  replyTo?: string | null,
  delayMs?: number,
  checkpoint?: string,
];

/** What is stored of a message: a line about it, and its body. JSON has no line break in it. */
export function payloadOf(
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

/** What was stored by something else has no line of ours: all of it is the body. */
export function contentOf(
  text: string,
  seq: number,
): { readonly head: Head; readonly body: string } {
  const end = text.indexOf("\n");
  try {
    const head = JSON.parse(text.slice(0, end)) as Head;
    if (end > 0 && typeof head[0] === "string") return { head, body: text.slice(end + 1) };
  } catch {
    // it is not ours
  }
  return { head: [`stream-${seq}`], body: text };
}
