// What a queue stores: its keys, and the messages under them.

import type { Entry } from "../../mailbox/engine.ts";
import type { KvAtomic, KvEntry, KvKey } from "./kv.ts";

/** The maximum size of a value in Deno KV, less its own overhead. */
export const MAX_VALUE_BYTES = 65_000;

/** The size of one part of a large message. */
const PART_BYTES = 60_000;

/** The limits of a block. A receive that takes a part of a block has to rewrite the rest. */
const MAX_BLOCK_MESSAGES = 100;
const MAX_BLOCK_KEYS = 50; // a purge checks each
const MAX_BLOCK_BYTES = 32_768;

/** The first part of every key. */
export const ROOT = "lastcall";

/** The keys of a queue. */
export class Keys {
  /** The beginning of every key of the queue. */
  readonly all: KvKey;
  /** Ready messages in blocks, by priority and the number of the first message. */
  readonly ready: KvKey;
  /** Leased and delayed messages, by due time. */
  readonly hidden: KvKey;
  /** Exists while the queue is paused or has a limit, before all hidden messages: a receive finds it. */
  readonly controlled: KvKey;
  /** The pause and the rate limit as JSON. Without it, `controlled` means a pause until it is resumed. */
  readonly control: KvKey;
  /** The processes that lease messages. */
  readonly owners: KvKey;
  /** Messages that wait behind another one with their key, in blocks. */
  readonly blocked: KvKey;
  /** What is known about ids that senders chose. */
  readonly ids: KvKey;
  /** The number of messages. */
  readonly count: KvKey;
  /** A counter that changes whenever messages may have become visible. */
  readonly wakes: KvKey;

  constructor(name: string) {
    this.all = [ROOT, name];
    this.ready = [...this.all, "ready"];
    this.hidden = [...this.all, "hidden"];
    this.controlled = [...this.hidden, -1];
    this.control = [...this.all, "control"];
    this.owners = [...this.all, "owner"];
    this.blocked = [...this.all, "blocked"];
    this.ids = [...this.all, "id"];
    this.count = [...this.all, "count"];
    this.wakes = [...this.all, "wakes"];
  }

  /** Where a message is that becomes visible at `dueAt`; now without it. */
  placeOf({ seq, nonce, priority }: Placed, dueAt?: number): KvKey {
    if (dueAt !== undefined) return [...this.hidden, dueAt, seq, nonce];
    return priority === 0 ? [...this.ready, seq, nonce] : [...this.readyWith(priority), seq, nonce];
  }

  /** The beginning of the keys of ready messages with a priority above 0. They come before all others. */
  readyWith(priority: number): KvKey {
    return [...this.ready, -priority];
  }

  /** Exists while the queue has messages with this key. Changes whenever one joins the others. */
  line(key: string): KvKey {
    return [...this.all, "line", key];
  }

  /** Where a message waits that is not the first one with its key. */
  blockedPlaceOf(key: string, { seq, nonce }: Placed): KvKey {
    return [...this.blocked, key, seq, nonce];
  }

  /** Has the {@linkcode IdState} of an id that a sender chose. */
  chosenId(id: string): KvKey {
    return [...this.ids, id];
  }

  /** The checkpoint of a message. Version 0.1 named the key. */
  checkpoint({ seq, nonce }: KvMessage): KvKey {
    return [...this.all, "progress", seq, nonce];
  }

  /** The parts of the text of a large message, in their order. */
  parts({ seq, nonce, parts }: KvMessage): KvKey[] {
    return Array.from({ length: parts }, (_, i) => [...this.all, "part", seq, nonce, i]);
  }

  /** Deletes everything of a message besides its place. Keeps an id that is to be remembered. */
  deleteExtras(atomic: KvAtomic, message: KvMessage, now: number): void {
    const { id, dedup, hasCheckpoint, rememberedUntil } = message;
    if (hasCheckpoint) atomic.delete(this.checkpoint(message));
    for (const key of this.parts(message)) atomic.delete(key);
    if (!dedup) return;
    const expireIn = rememberedUntil - now;
    if (expireIn <= 0) atomic.delete(this.chosenId(id));
    else atomic.set(this.chosenId(id), idValue(false, rememberedUntil), { expireIn });
  }

  /** The approximate size of one key in bytes. A commit limits their sum. */
  get bytes(): number {
    return String(this.all[1]).length + 64;
  }
}

/** What decides where a message or a block is stored. */
type Placed = Pick<KvMessage, "seq" | "nonce" | "priority">;

/** What is known about a chosen id. */
export interface IdState {
  /** A message with the id is stored. */
  readonly isStored: boolean;
  /** The id is remembered until then, in milliseconds since the Unix epoch; 0 when it is not. */
  readonly until: number;
}

/** Returns the stored form of an {@linkcode IdState}. Version 0.1 stored 1 for a stored message. */
export function idValue(isStored: boolean, until: number): unknown {
  return isStored && until === 0 ? 1 : [isStored, until];
}

/** Reads what {@linkcode idValue} returned. */
export function idStateOf({ value }: KvEntry): IdState {
  if (value === null) return { isStored: false, until: 0 };
  if (!Array.isArray(value)) return { isStored: true, until: 0 };
  return { isStored: value[0] === true, until: Number.isFinite(value[1]) ? value[1] : 0 };
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
  /** From 0 to 9. */
  readonly priority: number;
  /** Messages with the same key are delivered one at a time. */
  readonly key: string | undefined;
  /** True from the moment in which it takes its place among the messages of its key. */
  readonly joined: boolean;
  /** True while a worker has it. */
  readonly leased: boolean;
  /** The process that has it, if it is registered. */
  readonly owner: string | undefined;
  /** How many leases have expired. */
  readonly expiries: number;
  /** Until when its chosen id is remembered, in milliseconds since the Unix epoch; 0 when it is not. */
  readonly rememberedUntil: number;
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
  /** 0, 1 or the owner of the lease. */
  leased?: number | string,
  priority?: number,
  key?: string | null,
  joined?: number,
  rememberedUntil?: number,
  expiries?: number,
];

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Encodes a message as bytes, because the limits of the store are in bytes. */
export function pack(message: KvMessage): Uint8Array {
  const { seq, nonce, id, text, metaLength, enqueuedAt, deliveries, releases, parts } = message;
  const { priority, key = null, rememberedUntil, expiries } = message;
  const flags = [message.dedup ? 1 : 0, message.hasCheckpoint ? 1 : 0] as const;
  const state = [enqueuedAt, deliveries, releases] as const;
  const head: Head = [seq, nonce, id, ...flags, ...state, null, metaLength, parts];
  const isPlain = priority === 0 && key === null && rememberedUntil === 0 && expiries === 0;
  const leased = message.leased ? message.owner ?? 1 : 0;
  const more = [priority, key, message.joined ? 1 : 0, rememberedUntil, expiries];
  const all = isPlain ? leased === 0 ? head : [...head, leased] : [...head, leased, ...more];
  // A line break ends the head; JSON never contains one.
  return encoder.encode(`${JSON.stringify(all)}\n${parts === 0 ? text : ""}`);
}

/** Decodes the messages of a block. */
export function unpackAll(value: unknown): KvMessage[] {
  return (value as readonly Uint8Array[]).map(unpack);
}

function unpack(bytes: Uint8Array): KvMessage {
  const record = decoder.decode(bytes);
  const end = record.indexOf("\n");
  const [seq, nonce, id, dedup, hasCheckpoint, ...rest] = JSON.parse(record.slice(0, end)) as Head;
  const [enqueuedAt, deliveries, releases, replyTo, metaLength = 0, parts = 0, ...more] = rest;
  const [leased = 0, priority = 0, key = null, joined = 0, ...rare] = more;
  const [rememberedUntil = 0, expiries = 0] = rare;
  const oldMeta = replyTo === null ? "" : JSON.stringify({ replyTo });
  return {
    ...{ seq, nonce, id, enqueuedAt, deliveries, releases, parts },
    text: oldMeta + record.slice(end + 1),
    metaLength: oldMeta.length || metaLength,
    dedup: dedup === 1,
    hasCheckpoint: hasCheckpoint === 1,
    key: key ?? undefined,
    leased: leased !== 0,
    owner: typeof leased === "string" ? leased : undefined,
    joined: joined === 1,
    ...{ priority, rememberedUntil, expiries },
  };
}

/** A new message, and the values under its own keys. */
export interface NewMessage {
  readonly message: KvMessage;
  readonly parts: readonly Uint8Array[];
}

/** Returns a new message. The text of one that is too large for a value is divided into parts. */
export function newMessage(
  entry: Entry<string>,
  place: Pick<KvMessage, "seq" | "nonce" | "joined" | "rememberedUntil">,
  enqueuedAt: number,
): NewMessage {
  const { id, body, meta = "", dedup, checkpoint, priority = 0, key } = entry;
  const message: KvMessage = {
    ...{ ...place, id, text: meta + body, metaLength: meta.length, dedup, enqueuedAt },
    ...{ deliveries: 0, releases: 0, hasCheckpoint: checkpoint !== undefined, parts: 0 },
    ...{ priority, key, leased: false, owner: undefined, expiries: 0 },
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

/** Compares messages by the order of their delivery. */
export function inOrder(a: KvMessage, b: KvMessage): number {
  return b.priority - a.priority || a.seq - b.seq;
}

/** Returns about how many bytes the record of a message has, without its parts. */
export function weightOf({ text, parts }: KvMessage): number {
  return 300 + (parts === 0 ? 3 * text.length : 0);
}

/** Messages that share one entry, so that many fit into one commit. */
export interface Block extends Placed {
  readonly value: readonly Uint8Array[];
}

/** Splits messages of one priority into blocks, in order. */
export function blocksOf(messages: readonly KvMessage[]): Block[] {
  const blocks: (Placed & { value: Uint8Array[] })[] = [];
  let [room, keys] = [0, 0];
  for (const message of messages) {
    const { seq, nonce, priority, key } = message;
    const bytes = pack(message);
    const last = blocks.at(-1);
    room -= bytes.byteLength;
    if (key !== undefined) keys++;
    const fits = room >= 0 && keys <= MAX_BLOCK_KEYS;
    if (last !== undefined && fits && last.value.length < MAX_BLOCK_MESSAGES) {
      last.value.push(bytes);
    } else {
      blocks.push({ seq, nonce, priority, value: [bytes] });
      [room, keys] = [MAX_BLOCK_BYTES - bytes.byteLength, key === undefined ? 0 : 1];
    }
  }
  return blocks;
}
