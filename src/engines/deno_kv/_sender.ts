import { type Entry, freshnessOf } from "../../mailbox/engine.ts";
import { fullError, InvalidParameterError } from "../../mailbox/errors.ts";
import type { KvAtomic, KvKey } from "./kv.ts";
import { blocksOf, type Keys, MAX_VALUE_BYTES, type NewMessage, newMessage } from "./_record.ts";
import { MAX_COMMIT_BYTES, type Store } from "./_store.ts";

/** A chosen id is a part of a key, whose size is limited. */
const MAX_ID_BYTES = 512;

/** The most values that one send stores. */
const MAX_VALUES = 250;

interface Stored {
  readonly key: KvKey;
  readonly value: Uint8Array | readonly Uint8Array[];
}

/** Stores messages, all of one call in one commit. */
export class Sender {
  readonly #name: string;
  readonly #store: Store;
  readonly #keys: Keys;
  readonly #maxSize: number;
  /** Makes keys unique when processes store messages at the same moment. */
  readonly #nonce: string;
  #lastSeq = 0;

  constructor(name: string, store: Store, keys: Keys, maxSize: number) {
    this.#name = name;
    this.#store = store;
    this.#keys = keys;
    this.#maxSize = maxSize;
    this.#nonce = store.random.id().slice(0, 8);
  }

  /** Returns for each entry whether it was stored. */
  async send(entries: readonly Entry<string>[]): Promise<boolean[]> {
    for (const { id, dedup } of entries) if (dedup) checkId(id);
    return await this.#store.retryConflicts(this.#action, () => this.#send(entries));
  }

  async count(): Promise<number> {
    const { value } = await this.#store.get(`count ("${this.#name}")`, this.#keys.count);
    return countOf(value);
  }

  /** Returns a function that adds the new messages to a commit. */
  plan(entries: readonly Entry<string>[]): (atomic: KvAtomic) => void {
    const now = this.#store.clock.now();
    const stored = [...new Set(entries.map(({ delayMs }) => delayMs))].flatMap((delayMs) => {
      return this.#valuesOf(entries.filter((it) => it.delayMs === delayMs), delayMs, now);
    });
    this.#checkSize(stored, entries.length);
    return (atomic) => {
      for (const { key, value } of stored) atomic.set(key, value);
      atomic.sum(this.#keys.count, BigInt(entries.length)).sum(this.#keys.wakes, 1n);
    };
  }

  get #action(): string {
    return `send ("${this.#name}")`;
  }

  /** Resolves with undefined when another process changed the entries first. */
  async #send(entries: readonly Entry<string>[]): Promise<boolean[] | undefined> {
    const chosen = entries.filter(({ dedup }) => dedup).map(({ id }) => id);
    const found = await this.#store.getAll(
      this.#action,
      chosen.map((id) => this.#keys.chosenId(id)),
    );
    const known = new Set(chosen.filter((_, i) => found[i]!.versionstamp !== null));
    const isFresh = freshnessOf(entries, (id) => known.has(id));
    const fresh = entries.filter((_, i) => isFresh[i]);
    const counted = this.#maxSize === Infinity
      ? undefined
      : await this.#store.get(this.#action, this.#keys.count);
    const count = countOf(counted?.value);
    if (count + fresh.length > this.#maxSize) {
      throw fullError(this.#name, count, this.#maxSize, fresh.length);
    }
    if (fresh.length === 0) return isFresh;
    const store = this.plan(fresh);
    const versionstamp = await this.#store.commit(this.#action, (atomic) => {
      if (counted !== undefined) atomic.check(counted);
      for (const { id } of fresh.filter(({ dedup }) => dedup)) {
        const key = this.#keys.chosenId(id);
        atomic.check({ key, versionstamp: null }).set(key, 1);
      }
      store(atomic);
    });
    return versionstamp === undefined ? undefined : isFresh;
  }

  /** Returns what to store for messages that are due together. */
  #valuesOf(entries: readonly Entry<string>[], delayMs: number, now: number): Stored[] {
    const dueAt = delayMs === 0 ? undefined : Math.ceil(now + delayMs);
    const messages: NewMessage[] = entries.map((entry) => {
      return newMessage(entry, this.#nextSeq(now), this.#nonce, now);
    });
    const blocks = blocksOf(messages.map(({ message }) => message));
    const extras = messages.flatMap(({ message, parts }, i) => {
      const keys = this.#keys.parts(message);
      const { checkpoint } = entries[i]!;
      return [
        ...parts.map((value, part) => ({ key: keys[part]!, value })),
        ...(checkpoint === undefined
          ? []
          : [{ key: this.#keys.checkpoint(message), value: new TextEncoder().encode(checkpoint) }]),
      ];
    });
    return [
      ...extras,
      ...blocks.map((block) => ({ key: this.#keys.placeOf(block, dueAt), value: block.value })),
    ];
  }

  /** Returns the next message number: the time in microseconds, but always higher than the last one. */
  #nextSeq(now: number): number {
    return this.#lastSeq = Math.max(this.#lastSeq + 1, Math.floor(now * 1_000));
  }

  #checkSize(stored: readonly Stored[], count: number): void {
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

function checkId(id: string): void {
  const bytes = new TextEncoder().encode(id).byteLength;
  if (bytes <= MAX_ID_BYTES) return;
  throw new InvalidParameterError(
    `Invalid id: expected at most ${MAX_ID_BYTES} bytes for Deno KV, got ${bytes}`,
  );
}
