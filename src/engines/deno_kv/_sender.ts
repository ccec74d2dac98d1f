import { type Entry, freshnessOf } from "../../mailbox/engine.ts";
import { fullError, InvalidParameterError } from "../../mailbox/errors.ts";
import type { KvAtomic, KvEntry, KvKey } from "./kv.ts";
import { Lines } from "./_lines.ts";
import { type IdState, idStateOf, idValue, type Keys } from "./_keys.ts";
import {
  blocksOf,
  bytesOf,
  type KvMessage,
  MAX_ID_BYTES,
  MAX_VALUE_BYTES,
  newMessage,
} from "./_record.ts";
import { MAX_COMMIT_BYTES, type Store } from "./_store.ts";

/** The most values that one send stores. */
const MAX_VALUES = 250;

interface Stored {
  readonly key: KvKey;
  readonly value: Uint8Array | readonly Uint8Array[];
}

/** What a send found out about its entries. */
interface Found {
  /** The chosen ids, and until when each is remembered. */
  readonly ids: ReadonlyMap<string, KvEntry & IdState>;
  /** The lines of the keys of messages without a delay. */
  readonly lines: ReadonlyMap<string, KvEntry>;
  readonly now: number;
}

/** Marks the messages that wait behind another one with their key. */
const BLOCKED = "blocked";

/** The most checks of a commit, less one for the size of the queue. */
const MAX_SEND_CHECKS = 99;

/** Stores messages, all of one call in one commit. */
export class Sender {
  readonly #name: string;
  readonly #store: Store;
  readonly #keys: Keys;
  readonly #maxSize: number;
  readonly #lines: Lines;
  /** Makes keys unique when processes store messages at the same moment. */
  readonly #nonce: string;
  #lastSeq = 0;

  constructor(name: string, store: Store, keys: Keys, maxSize: number) {
    this.#name = name;
    this.#store = store;
    this.#keys = keys;
    this.#maxSize = maxSize;
    this.#lines = new Lines(store, keys);
    this.#nonce = store.random.id().slice(0, 8);
  }

  /** Returns for each entry whether it was stored. */
  async send(entries: readonly Entry<string>[]): Promise<boolean[]> {
    for (const { id, dedup, key } of entries) {
      if (dedup) checkBytes("id", id);
      if (key !== undefined) checkBytes("key", key);
    }
    return await this.#store.retryConflicts(this.#action, () => this.#send(entries));
  }

  async count(): Promise<number> {
    const { value } = await this.#store.get(`count ("${this.#name}")`, this.#keys.count);
    return countOf(value);
  }

  /** Returns a function that adds a dead letter to a commit. It has no key, and its id may exist. */
  plan(letter: Entry<string>): (atomic: KvAtomic) => void {
    return this.#plan([letter], { ids: new Map(), lines: new Map(), now: this.#store.clock.now() });
  }

  get #action(): string {
    return `send ("${this.#name}")`;
  }

  /** Resolves with undefined when another process changed the entries first. */
  async #send(entries: readonly Entry<string>[]): Promise<boolean[] | undefined> {
    const now = this.#store.clock.now();
    const ids = await this.#idsOf(entries);
    const isFresh = freshnessOf(entries, (id, dedupMs) => {
      const { isStored, until } = ids.get(id)!;
      return isStored || dedupMs !== undefined && until > now;
    });
    const fresh = entries.filter((_, i) => isFresh[i]);
    const counted = this.#maxSize === Infinity
      ? undefined
      : await this.#store.get(this.#action, this.#keys.count);
    const count = countOf(counted?.value);
    if (count + fresh.length > this.#maxSize) {
      throw fullError(this.#name, count, this.#maxSize, fresh.length);
    }
    if (fresh.length === 0) return isFresh;
    const joining = fresh.filter(({ delayMs }) => delayMs === 0);
    const lines = await this.#lines.read(this.#action, joining);
    const store = this.#plan(fresh, { ids, lines, now });
    const versionstamp = await this.#store.commit(this.#action, (atomic) => {
      if (counted !== undefined) atomic.check(counted);
      for (const { id } of fresh.filter(({ dedup }) => dedup)) atomic.check(ids.get(id)!);
      this.#lines.join(atomic, lines.values());
      store(atomic);
    });
    return versionstamp === undefined ? undefined : isFresh;
  }

  async #idsOf(entries: readonly Entry<string>[]): Promise<Found["ids"]> {
    const chosen = [...new Set(entries.flatMap(({ id, dedup }) => dedup ? id : []))];
    if (chosen.length === 0) return new Map();
    const keys = chosen.map((id) => this.#keys.chosenId(id));
    const entriesOf = await this.#store.getAll(this.#action, keys);
    return new Map(chosen.map((id, i) => [id, { ...entriesOf[i]!, ...idStateOf(entriesOf[i]!) }]));
  }

  /** Returns a function that adds the new messages to a commit. */
  #plan(entries: readonly Entry<string>[], { ids, lines, now }: Found): (atomic: KvAtomic) => void {
    const stored: Stored[] = [];
    const chosen: (readonly [id: string, value: unknown])[] = [];
    /** Messages that share blocks, by where they are stored. */
    const groups = new Map<
      string,
      { readonly entry: Entry<string>; readonly messages: KvMessage[] }
    >();
    const free = new Set([...lines].flatMap(([key, { value }]) => value === null ? key : []));
    for (const entry of entries) {
      const { id, key, delayMs, priority = 0, dedup, dedupMs, checkpoint } = entry;
      const known = ids.get(id)?.until ?? 0;
      const rememberedUntil = dedupMs !== undefined ? now + dedupMs : known > now ? known : 0;
      const place = { seq: this.#nextSeq(now), nonce: this.#nonce, joined: delayMs === 0 };
      const { message, parts } = newMessage(entry, { ...place, rememberedUntil }, now);
      let group = `${delayMs} ${priority}`;
      // One with a key and a delay is alone, because it joins the others with its key by itself.
      if (key !== undefined && delayMs > 0) group = `alone ${message.seq}`;
      else if (key !== undefined && !free.delete(key)) group = `${BLOCKED} ${key}`;
      const messages = groups.get(group)?.messages;
      if (messages === undefined) groups.set(group, { entry, messages: [message] });
      else messages.push(message);
      for (const [i, value] of parts.entries()) {
        stored.push({ key: this.#keys.parts(message)[i]!, value });
      }
      if (checkpoint !== undefined) {
        const value = new TextEncoder().encode(checkpoint);
        stored.push({ key: this.#keys.checkpoint(message), value });
      }
      if (dedup && ids.size > 0) chosen.push([id, idValue(true, rememberedUntil)]);
    }
    for (const [group, { entry: { key, delayMs }, messages }] of groups) {
      const dueAt = delayMs === 0 ? undefined : Math.ceil(now + delayMs);
      for (const block of blocksOf(messages)) {
        const place = group.startsWith(BLOCKED)
          ? this.#keys.blockedPlaceOf(key!, block)
          : this.#keys.placeOf(block, dueAt);
        stored.push({ key: place, value: block.value });
      }
    }
    this.#checkSize(stored, entries.length, ids.size + lines.size);
    return (atomic) => {
      for (const { key, value } of stored) atomic.set(key, value);
      for (const [id, value] of chosen) atomic.set(this.#keys.chosenId(id), value);
      atomic.sum(this.#keys.count, BigInt(entries.length)).sum(this.#keys.wakes, 1n);
    };
  }

  /** Returns the next message number: the time in microseconds, but always higher than the last one. */
  #nextSeq(now: number): number {
    return this.#lastSeq = Math.max(this.#lastSeq + 1, Math.floor(now * 1_000));
  }

  #checkSize(stored: readonly Stored[], count: number, checks: number): void {
    if (checks > MAX_SEND_CHECKS) {
      throw new InvalidParameterError(
        `Cannot send ${count} messages to "${this.#name}" in one call: they have ${checks} different ids ` +
          `and keys, and Deno KV accepts ${MAX_SEND_CHECKS}. Send them in several calls`,
      );
    }
    const sizes = stored.map(({ value }) => {
      const values = value instanceof Uint8Array ? [value] : value;
      return values.reduce((sum, it) => sum + it.byteLength + 8, 0);
    });
    const largest = Math.max(...sizes);
    if (largest > MAX_VALUE_BYTES) {
      throw new InvalidParameterError(
        `Cannot store a value of ${largest} bytes in "${this.#name}": Deno KV accepts ${MAX_VALUE_BYTES}. ` +
          "Store it elsewhere and send a reference",
      );
    }
    const total = sizes.reduce((sum, size) => sum + size, 0);
    if (total > MAX_COMMIT_BYTES || stored.length > MAX_VALUES) {
      throw new InvalidParameterError(
        `Cannot send ${count} messages to "${this.#name}" in one call: they have ${total} bytes and ` +
          `Deno KV accepts ${MAX_COMMIT_BYTES}. Send them in several calls`,
      );
    }
  }
}

function countOf(value: unknown): number {
  return value === null || value === undefined ? 0 : Number((value as { value: bigint }).value);
}

function checkBytes(name: "id" | "key", text: string): void {
  const bytes = bytesOf(text);
  if (bytes <= MAX_ID_BYTES) return;
  throw new InvalidParameterError(
    `Invalid ${name}: expected at most ${MAX_ID_BYTES} bytes for Deno KV, got ${bytes}`,
  );
}
