import type { Entry } from "../../mailbox/engine.ts";

/** As much as Deno KV stores at one key, less what it adds itself. */
export const MAX_VALUE_BYTES = 65_000;

/** A block holds no more: whoever takes some of it writes the rest again. */
const MAX_BLOCK_MESSAGES = 100;
const MAX_BLOCK_BYTES = 32_768;

/** A message as it is stored. Its place and nonce are its own for life. */
export interface StoredMessage {
  readonly seq: number;
  readonly nonce: string;
  readonly id: string;
  readonly body: string;
  /** The id was chosen by the sender. */
  readonly dedup: boolean;
  readonly enqueuedAt: number;
  readonly deliveries: number;
  readonly releases: number;
  /** Progress was saved with it. */
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

/** A message in bytes, of which the store takes so many: what they weigh as text differs by the letters. */
export function pack(message: StoredMessage): Uint8Array {
  const { seq, nonce, id, body, dedup, enqueuedAt, deliveries, releases, progress } = message;
  const { replyTo = null } = message;
  const flags = [dedup ? 1 : 0, progress ? 1 : 0] as const;
  const head: Head = [seq, nonce, id, ...flags, enqueuedAt, deliveries, releases, replyTo];
  return encoder.encode(`${JSON.stringify(head)}\n${body}`); // JSON has no line break, which ends it
}

/** A message of its bytes. */
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

/** A new message. */
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

/** Messages that are stored together, so that many fit into one commit. */
export interface Block {
  readonly seq: number;
  readonly nonce: string;
  readonly value: readonly Uint8Array[];
}

/** Puts messages into blocks, in their order. */
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
