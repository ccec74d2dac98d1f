import type { Entry } from "../../mailbox/engine.ts";

/** The maximum size of a value in Deno KV, less its own overhead. */
export const MAX_VALUE_BYTES = 65_000;

/** The limits of a block. A pull that takes a part of a block has to rewrite the rest. */
const MAX_BLOCK_MESSAGES = 100;
const MAX_BLOCK_BYTES = 32_768;

/** A message as it is stored. Its number and its nonce never change. */
export interface StoredMessage {
  readonly seq: number;
  readonly nonce: string;
  readonly id: string;
  readonly body: string;
  /** True when the sender chose the id. */
  readonly dedup: boolean;
  readonly enqueuedAt: number;
  readonly deliveries: number;
  readonly releases: number;
  /** True when the message has a checkpoint. */
  readonly progress: boolean;
  readonly replyTo?: string | undefined;
}

type Head = readonly [
  seq: number,
  nonce: string,
  id: string,
  dedup: number,
  progress: number,
  enqueuedAt: number,
  deliveries: number,
  releases: number,
  replyTo: string | null,
];

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Encodes a message as bytes, because the limits of the store are in bytes. */
export function pack(message: StoredMessage): Uint8Array {
  const { seq, nonce, id, body, dedup, enqueuedAt, deliveries, releases, progress } = message;
  const { replyTo = null } = message;
  const flags = [dedup ? 1 : 0, progress ? 1 : 0] as const;
  const head: Head = [seq, nonce, id, ...flags, enqueuedAt, deliveries, releases, replyTo];
  return encoder.encode(`${JSON.stringify(head)}\n${body}`); // a line break ends the head; JSON never contains one
}

/** Decodes a message. */
export function unpack(bytes: Uint8Array): StoredMessage {
  const text = decoder.decode(bytes);
  const end = text.indexOf("\n");
  const [seq, nonce, id, dedup, progress, enqueuedAt, deliveries, releases, replyTo] = JSON
    .parse(text.slice(0, end)) as Head;
  return {
    ...{ seq, nonce, id, enqueuedAt, deliveries, releases },
    replyTo: replyTo ?? undefined,
    body: text.slice(end + 1),
    dedup: dedup === 1,
    progress: progress === 1,
  };
}

/** Returns a new message. */
export function messageOf(
  { id, body, dedup, replyTo, checkpoint }: Omit<Entry<string>, "delayMs">,
  seq: number,
  nonce: string,
  enqueuedAt: number,
): StoredMessage {
  const address = typeof replyTo === "object" ? replyTo.name : replyTo;
  return {
    ...{ seq, nonce, id, body, dedup, enqueuedAt, replyTo: address },
    ...{ deliveries: 0, releases: 0, progress: checkpoint !== undefined },
  };
}

/** Messages that share one entry, so that many fit into one commit. */
export interface Block {
  readonly seq: number;
  readonly nonce: string;
  readonly value: readonly Uint8Array[];
}

/** Splits messages into blocks, in order. */
export function blocksOf(messages: readonly StoredMessage[]): Block[] {
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
