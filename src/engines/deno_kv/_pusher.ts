import { type Entry, freshnessOf } from "../../mailbox/engine.ts";
import { InvalidParameterError, MailboxFullError } from "../../mailbox/errors.ts";
import { MAX_COMMIT_BYTES } from "./_chunks.ts";
import type { Keys } from "./_keys.ts";
import type { KvAtomic, KvKey } from "./kv.ts";
import { type Block, blocksOf, MAX_VALUE_BYTES, messageOf } from "./_record.ts";
import type { Store } from "./_store.ts";

/** A chosen id is a part of a key, whose size is limited. */
const MAX_ID_BYTES = 512;

/** Stores messages, all of one call in one commit. */
export class Pusher {
  readonly #name: string;
  readonly #store: Store;
  readonly #keys: Keys;
  readonly #maxSize: number;
  /** Makes keys unique when processes store messages at the same moment. */
  readonly #nonce = crypto.randomUUID().slice(0, 8);
  #lastSeq = 0;

  constructor(name: string, store: Store, keys: Keys, maxSize: number) {
    this.#name = name;
    this.#store = store;
    this.#keys = keys;
    this.#maxSize = maxSize;
  }

  /** Returns for each entry whether it was stored. */
  async push(entries: readonly Entry<string>[]): Promise<boolean[]> {
    for (const { id, dedup } of entries) if (dedup) checkId(id);
    return await this.#store.retryConflicts(this.#action, () => this.#push(entries));
  }

  async count(): Promise<number> {
    const { value } = await this.#store.get(`count ("${this.#name}")`, this.#keys.count);
    return countOf(value);
  }

  /** Returns a function that adds the new messages to a commit. */
  plan(entries: readonly Entry<string>[]): (atomic: KvAtomic) => void {
    const now = this.#store.clock.now();
    const delays = new Set(entries.map(({ delayMs }) => delayMs));
    const checkpoints: { readonly key: KvKey; readonly value: Uint8Array }[] = [];
    const blocks = [...delays].flatMap((delayMs) => {
      const together = entries.filter((it) => it.delayMs === delayMs).map((entry) => {
        const message = messageOf(entry, this.#nextSeq(now), this.#nonce, now);
        if (entry.checkpoint !== undefined) {
          const key = this.#keys.progress(message.seq, message.nonce);
          checkpoints.push({ key, value: new TextEncoder().encode(entry.checkpoint) });
        }
        return message;
      });
      return blocksOf(together).map((block) => ({ block, delayMs }));
    });
    const values = blocks.map(({ block }) => block.value);
    this.#checkSize([...values, ...checkpoints.map(({ value }) => [value])], entries.length);
    return (atomic) => {
      for (const { key, value } of checkpoints) atomic.set(key, value);
      for (const { block: { seq, nonce, value }, delayMs } of blocks) {
        const key = delayMs === 0
          ? this.#keys.readyAt(seq, nonce)
          : this.#keys.hiddenAt(Math.ceil(now + delayMs), seq, nonce);
        atomic.set(key, value);
      }
      atomic.sum(this.#keys.count, BigInt(entries.length)).sum(this.#keys.wakes, 1n);
    };
  }

  get #action(): string {
    return `send ("${this.#name}")`;
  }

  /** Resolves with undefined when another process changed the entries first. */
  async #push(entries: readonly Entry<string>[]): Promise<boolean[] | undefined> {
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
      throw new MailboxFullError(
        `Mailbox "${this.#name}" is full: it holds ${count} of ${this.#maxSize} messages and cannot ` +
          `take ${fresh.length} more; receive some, or raise maxSize`,
      );
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

  /** Returns the next message number: the time in microseconds, but always higher than the last one. */
  #nextSeq(now: number): number {
    return this.#lastSeq = Math.max(this.#lastSeq + 1, Math.floor(now * 1_000));
  }

  #checkSize(values: readonly Block["value"][], count: number): void {
    const sizes = values.map((value) => value.reduce((sum, it) => sum + it.byteLength + 8, 0));
    const largest = Math.max(...sizes);
    if (largest > MAX_VALUE_BYTES) {
      throw new InvalidParameterError(
        `Cannot send a message of ${largest} bytes with its head to "${this.#name}": Deno KV accepts ` +
          `${MAX_VALUE_BYTES}. Store the body elsewhere and send a reference`,
      );
    }
    const total = sizes.reduce((sum, size) => sum + size, 0);
    if (total > MAX_COMMIT_BYTES || values.length > 250) {
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
