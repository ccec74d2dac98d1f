// The values that a queue stores under the keys of its messages.

import { show } from "../../_checks.ts";
import type { Entry } from "../../mailbox/engine.ts";
import { isStorable, MAX_PRIORITY } from "../../mailbox/envelope.ts";
import type { KvEntry, KvKey } from "./kv.ts";

/** The maximum size of a value in Deno KV, less its own overhead. */
export const MAX_VALUE_BYTES = 65_000;

/** The size of one part of a large message. */
const PART_BYTES = 60_000;

/** The limits of a block. A receive that takes a part of a block has to rewrite the rest. */
const MAX_BLOCK_MESSAGES = 100;
const MAX_BLOCK_KEYS = 50; // a purge checks each
const MAX_BLOCK_BYTES = 32_768;

/** Chosen ids and message keys are parts of the store's keys, whose size is limited. */
export const MAX_ID_BYTES = 512;

/** More parts than any message has, because a commit has fewer. */
const MAX_PARTS = 100;

/** Below the latest expiry time that the store accepts. */
const MAX_TIME = 1e15;

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

/** The fields that decide where a message or a block is stored. */
export type Placed = Pick<KvMessage, "seq" | "nonce" | "priority">;

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

/** The meta of a damaged message. It is not JSON, so that the mailbox dead-letters the message as unreadable. */
export const DAMAGED = "damaged record";

/** Returns the records of an entry. An entry with another format counts as one damaged record. */
export function recordsIn({ key, value }: KvEntry): readonly unknown[] {
  if (typeof key.at(-1) !== "string") return []; // the mark of a control; a place ends with a nonce
  const isBlock = Array.isArray(value) && value.length > 0 && value.length <= MAX_BLOCK_MESSAGES;
  return isBlock ? value : [value];
}

/**
 * Decodes the messages of an entry. Replaces unreadable fields and repeated nonces, so that a damaged record does not
 * affect the other messages of the entry.
 */
export function unpackAll(entry: KvEntry): KvMessage[] {
  const messages: KvMessage[] = [];
  for (const [i, record] of recordsIn(entry).entries()) {
    const message = unpack(record, entry.key, i);
    const { seq, nonce } = message;
    const isUsed = messages.some((it) => it.seq === seq && it.nonce === nonce);
    messages.push(isUsed ? { ...message, nonce: newNonce(entry.key, i) } : message);
  }
  return messages;
}

function unpack(record: unknown, key: KvKey, index: number): KvMessage {
  const text = record instanceof Uint8Array ? decoder.decode(record) : show(record);
  const end = text.indexOf("\n");
  const stored = headOf(text.slice(0, Math.max(0, end)));
  const isWhole = stored.length >= MIN_HEAD && stored.every(isField);
  const head = (isWhole ? stored : stored.map((it, i) => isField(it, i) ? it : undefined)) as Head;
  const [seq = Number(key.at(-2)) || 0, nonce = newNonce(key, index), ...own] = head;
  const [id = `unreadable-${seq}`, dedup = 0, hasCheckpoint = 0, ...rest] = own;
  const [enqueuedAt = Math.floor(seq / 1_000), deliveries = 0, releases = 0, ...last] = rest;
  const [replyTo = null, metaLength = 0, parts = 0, ...more] = last;
  const [leased = 0, priority = priorityIn(key), messageKey = null, joined = 0, ...rare] = more;
  const [rememberedUntil = 0, expiries = 0] = rare;
  const oldMeta = replyTo === null ? "" : JSON.stringify({ replyTo });
  return {
    ...{ seq, nonce, enqueuedAt, deliveries, releases },
    ...(isWhole
      ? { id, text: oldMeta + text.slice(end + 1), metaLength: oldMeta.length || metaLength, parts }
      : { ...damaged(text), id: fitsInKey(id) ? id : `unreadable-${seq}`, parts: 0 }),
    dedup: dedup === 1 && fitsInKey(id),
    hasCheckpoint: hasCheckpoint === 1,
    key: messageKey ?? undefined,
    leased: leased !== 0,
    owner: typeof leased === "string" ? leased : undefined,
    joined: joined === 1 && messageKey !== null,
    ...{ priority, rememberedUntil, expiries },
  };
}

/** A place has one number and one nonce, but may have several messages. No sender makes such a nonce. */
function newNonce(key: KvKey, index: number): string {
  return `${key.at(-1)}.${index}`;
}

/** Ready messages with a priority have it, negated, in their key: see {@linkcode Keys.readyWith}. */
function priorityIn(key: KvKey): number {
  const priority = key[2] === "ready" && key.length === 6 ? -Number(key[3]) : 0;
  return isField(priority, PRIORITY) ? priority : 0;
}

/** Returns the fields of a head, or none if the text is not a list. */
function headOf(text: string): readonly unknown[] {
  try {
    const head: unknown = JSON.parse(text);
    return Array.isArray(head) ? head : [];
  } catch {
    return [];
  }
}

/** The number of fields that version 0.1 wrote. */
const MIN_HEAD = 9;

/** The place of the priority in a {@linkcode Head}. */
const PRIORITY = 12;

const isNumber = (it: unknown) => Number.isFinite(it);
const isCount = (it: unknown) => Number.isSafeInteger(it) && it as number >= 0;
const isFlag = (it: unknown) => it === 0 || it === 1;
const isText = (it: unknown) => typeof it === "string";
const isNullOr = (is: (it: unknown) => boolean) => (it: unknown) => it === null || is(it);

/** The checks of the fields of a {@linkcode Head}, in the same order. */
const FIELDS: readonly ((value: unknown) => boolean)[] = [
  ...[isNumber, fitsInKey, isStorable, isFlag, isFlag], // seq, nonce, id, dedup, hasCheckpoint
  ...[isNumber, isCount, isCount], // enqueuedAt, deliveries, releases
  ...[isNullOr(isText), isCount], // replyTo, metaLength
  (parts) => isCount(parts) && parts as number <= MAX_PARTS,
  (leased) => isFlag(leased) || fitsInKey(leased),
  (priority) => isCount(priority) && priority as number <= MAX_PRIORITY,
  ...[isNullOr(fitsInKey), isFlag], // key, joined
  (rememberedUntil) => isNumber(rememberedUntil) && rememberedUntil as number <= MAX_TIME,
  isCount, // expiries
];

function isField(value: unknown, place: number): boolean {
  return FIELDS[place]?.(value) ?? false;
}

/** Returns true for a text that can be part of a key of the store. */
function fitsInKey(value: unknown): value is string {
  return isStorable(value) && bytesOf(value) <= MAX_ID_BYTES;
}

/** Returns the size of an id or a key in UTF-8. */
export function bytesOf(text: string): number {
  return encoder.encode(text).byteLength;
}

/** Returns the text of a damaged message: as much of its record as fits. */
function damaged(record: string): Pick<KvMessage, "text" | "metaLength"> {
  const most = MAX_VALUE_BYTES - 10_000; // the other fields may need these
  const body = decoder.decode(encoder.encode(record).subarray(0, most));
  return { text: DAMAGED + body, metaLength: DAMAGED.length };
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

/** Returns a large message with the text of its parts. If one is missing, the message is damaged. */
export function withText(message: KvMessage, parts: readonly unknown[]): KvMessage {
  const bytes = parts.filter((part) => part instanceof Uint8Array);
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true }); // a character may span two parts
  const text = bytes.map((part) => decoder.decode(part, { stream: true })).join("") +
    decoder.decode();
  if (bytes.length === parts.length) return { ...message, text };
  return { ...message, ...damaged(text) };
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
