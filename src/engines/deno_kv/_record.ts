// What a queue stores: its keys, and the messages under them.

import type { Delivery, Entry } from "../../mailbox/engine.ts";
import type { KvKey } from "./kv.ts";

/** The maximum size of a value in Deno KV, less its own overhead. */
export const MAX_VALUE_BYTES = 65_000;

/** The size of one part of a large message. */
const PART_BYTES = 60_000;

/** The limits of a block. A receive that takes a part of a block has to rewrite the rest. */
const MAX_BLOCK_MESSAGES = 100;
const MAX_BLOCK_BYTES = 32_768;

/** The keys of a queue. */
export class Keys {
  /** Ready messages in blocks, by the number of the first message. */
  readonly ready: KvKey;
  /** Leased and delayed messages, by due time. */
  readonly hidden: KvKey;
  /** The number of messages. */
  readonly count: KvKey;
  /** A counter that changes whenever messages may have become visible. */
  readonly wakes: KvKey;
  readonly #name: string;

  constructor(name: string) {
    this.#name = name;
    this.ready = ["lastcall", name, "ready"];
    this.hidden = ["lastcall", name, "hidden"];
    this.count = ["lastcall", name, "count"];
    this.wakes = ["lastcall", name, "wakes"];
  }

  /** Where a message is that becomes visible at `dueAt`; now without it. */
  placeOf({ seq, nonce }: Pick<KvMessage, "seq" | "nonce">, dueAt?: number): KvKey {
    return dueAt === undefined ? [...this.ready, seq, nonce] : [...this.hidden, dueAt, seq, nonce];
  }

  /** Exists for an id that a sender chose, as long as its message exists. */
  chosenId(id: string): KvKey {
    return ["lastcall", this.#name, "id", id];
  }

  /** The checkpoint of a message. Version 0.1 named the key. */
  checkpoint({ seq, nonce }: KvMessage): KvKey {
    return ["lastcall", this.#name, "progress", seq, nonce];
  }

  /** The parts of the text of a large message, in their order. */
  parts({ seq, nonce, parts }: KvMessage): KvKey[] {
    return Array.from({ length: parts }, (_, i) => ["lastcall", this.#name, "part", seq, nonce, i]);
  }

  /** Every key that a message has besides its place. */
  extras(message: KvMessage): KvKey[] {
    return [
      ...(message.dedup ? [this.chosenId(message.id)] : []),
      ...(message.hasCheckpoint ? [this.checkpoint(message)] : []),
      ...this.parts(message),
    ];
  }

  /** The approximate size of one key in bytes. A commit limits their sum. */
  get bytes(): number {
    return this.#name.length + 64;
  }
}

/** A message as it is stored. Its number and its nonce never change. */
export interface KvMessage {
  readonly seq: number;
  readonly nonce: string;
  readonly id: string;
  /** The envelope and then the body. Empty for a large message until its parts are read. */
  readonly text: string;
  /** The length of the envelope in `text`; 0 without one. */
  readonly metaLength: number;
  /** True when the sender chose the id. */
  readonly dedup: boolean;
  readonly enqueuedAt: number;
  readonly deliveries: number;
  readonly releases: number;
  readonly hasCheckpoint: boolean;
  /** How many values a large message has for its text, such as a large dead letter; 0 for any other. */
  readonly parts: number;
}

type Head = readonly [
  seq: number,
  nonce: string,
  id: string,
  dedup: number,
  hasCheckpoint: number,
  enqueuedAt: number,
  deliveries: number,
  releases: number,
  /** The reply address of a message that version 0.1 sent. Such a head ends here. */
  replyTo: string | null,
  metaLength?: number,
  parts?: number,
];

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Encodes a message as bytes, because the limits of the store are in bytes. */
export function pack(message: KvMessage): Uint8Array {
  const { seq, nonce, id, text, metaLength, enqueuedAt, deliveries, releases, parts } = message;
  const flags = [message.dedup ? 1 : 0, message.hasCheckpoint ? 1 : 0] as const;
  const state = [enqueuedAt, deliveries, releases] as const;
  const head: Head = [seq, nonce, id, ...flags, ...state, null, metaLength, parts];
  // A line break ends the head; JSON never contains one.
  return encoder.encode(`${JSON.stringify(head)}\n${parts === 0 ? text : ""}`);
}

/** Decodes the messages of a block. */
export function unpackAll(value: unknown): KvMessage[] {
  return (value as readonly Uint8Array[]).map(unpack);
}

function unpack(bytes: Uint8Array): KvMessage {
  const record = decoder.decode(bytes);
  const end = record.indexOf("\n");
  const [seq, nonce, id, dedup, hasCheckpoint, ...rest] = JSON.parse(record.slice(0, end)) as Head;
  const [enqueuedAt, deliveries, releases, replyTo, metaLength = 0, parts = 0] = rest;
  const oldMeta = replyTo === null ? "" : JSON.stringify({ replyTo });
  return {
    ...{ seq, nonce, id, enqueuedAt, deliveries, releases, parts },
    text: oldMeta + record.slice(end + 1),
    metaLength: oldMeta.length || metaLength,
    dedup: dedup === 1,
    hasCheckpoint: hasCheckpoint === 1,
  };
}

/** A new message, and the values under its own keys. */
export interface NewMessage {
  readonly message: KvMessage;
  readonly parts: readonly Uint8Array[];
}

/** Returns a new message. The text of one that is too large for a value is divided into parts. */
export function newMessage(
  { id, body, meta = "", dedup, checkpoint }: Omit<Entry<string>, "delayMs">,
  seq: number,
  nonce: string,
  enqueuedAt: number,
): NewMessage {
  const message: KvMessage = {
    ...{ seq, nonce, id, text: meta + body, metaLength: meta.length, dedup, enqueuedAt },
    ...{ deliveries: 0, releases: 0, hasCheckpoint: checkpoint !== undefined, parts: 0 },
  };
  if (pack(message).byteLength + 8 <= MAX_VALUE_BYTES) return { message, parts: [] };
  const bytes = encoder.encode(message.text);
  const count = Math.ceil(bytes.byteLength / PART_BYTES);
  const parts = Array.from({ length: count }, (_, i) => {
    return bytes.slice(i * PART_BYTES, (i + 1) * PART_BYTES);
  });
  return { message: { ...message, parts: count }, parts };
}

/** Returns a large message with the text of its parts. */
export function withText(message: KvMessage, parts: readonly Uint8Array[]): KvMessage {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true }); // a character may span two parts
  const texts = parts.map((part) => decoder.decode(part, { stream: true }));
  return { ...message, text: texts.join("") + decoder.decode() };
}

/** Returns about how many bytes the record of a message has, without its parts. */
export function weightOf({ text, parts }: KvMessage): number {
  return 300 + (parts === 0 ? 3 * text.length : 0);
}

/** Messages that share one entry, so that many fit into one commit. */
export interface Block {
  readonly seq: number;
  readonly nonce: string;
  readonly value: readonly Uint8Array[];
}

/** Splits messages into blocks, in order. */
export function blocksOf(messages: readonly KvMessage[]): Block[] {
  const blocks: { seq: number; nonce: string; value: Uint8Array[] }[] = [];
  let room = 0;
  for (const message of messages) {
    const bytes = pack(message);
    const last = blocks.at(-1);
    room -= bytes.byteLength;
    if (last !== undefined && room >= 0 && last.value.length < MAX_BLOCK_MESSAGES) {
      last.value.push(bytes);
    } else {
      blocks.push({ seq: message.seq, nonce: message.nonce, value: [bytes] });
      room = MAX_BLOCK_BYTES - bytes.byteLength;
    }
  }
  return blocks;
}

/** A message that was received. The versionstamp of its entry is the proof of the lease. */
export class KvDelivery implements Delivery<string> {
  message: KvMessage;
  key: KvKey;
  versionstamp: string;
  /** By the wall clock, in milliseconds. */
  leaseEndsAt: number;
  readonly receiptHandle: string;
  readonly checkpoint: string | undefined;
  /** Resolves when the last change is complete. Changes are serialized, as each makes a new versionstamp. */
  lastChange: Promise<unknown> = Promise.resolve();

  constructor(
    message: KvMessage,
    key: KvKey,
    versionstamp: string,
    leaseEndsAt: number,
    checkpoint: string | undefined,
  ) {
    this.message = message;
    this.key = key;
    this.versionstamp = versionstamp;
    this.leaseEndsAt = leaseEndsAt;
    this.receiptHandle = `${message.seq}-${message.nonce}-${versionstamp}`;
    this.checkpoint = checkpoint;
  }

  get id(): string {
    return this.message.id;
  }

  get meta(): string | undefined {
    const { text, metaLength } = this.message;
    return metaLength === 0 ? undefined : text.slice(0, metaLength);
  }

  get body(): string {
    return this.message.text.slice(this.message.metaLength);
  }

  get deliveryCount(): number {
    return this.message.deliveries;
  }

  get enqueuedAt(): number {
    return this.message.enqueuedAt;
  }
}
