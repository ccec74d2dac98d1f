/**
 * The part of Deno KV that a mailbox uses. The result of `Deno.openKv` has this shape; the types of Deno are
 * not needed.
 *
 * @module
 */

/** A part of a key. */
export type KvKeyPart = string | number | bigint | boolean | Uint8Array;

/** A key. */
export type KvKey = readonly KvKeyPart[];

/** An entry of the store; without a versionstamp, the key does not exist. */
export interface KvEntry {
  /** The key of the entry. */
  readonly key: KvKey;
  /** The stored value, or null. */
  readonly value: unknown;
  /** Changes with every write; null when the key does not exist. */
  readonly versionstamp: string | null;
}

/** An atomic change. */
export interface KvAtomic {
  /** Makes the commit fail when one of these keys has another versionstamp. */
  check(...checks: { readonly key: KvKey; readonly versionstamp: string | null }[]): KvAtomic;
  /** Stores a value, until `expireIn` milliseconds have passed if given. */
  set(key: KvKey, value: unknown, options?: { expireIn?: number }): KvAtomic;
  /** Deletes a key. */
  delete(key: KvKey): KvAtomic;
  /** Adds to a 64-bit counter. */
  sum(key: KvKey, n: bigint): KvAtomic;
  /** Commits the change; `ok` is false when a check failed. */
  commit(): Promise<{ readonly ok: boolean; readonly versionstamp?: string }>;
}

/** A selection of keys, in their order. */
export interface KvSelector {
  /** Selects the keys that start with this. */
  readonly prefix: KvKey;
  /** Selects only keys from this one on. */
  readonly start?: KvKey;
  /** Selects only keys before this one. */
  readonly end?: KvKey;
}

/** A store, as `Deno.openKv` opens it. */
export interface Kv {
  /** Reads one key. */
  get(key: KvKey): Promise<KvEntry>;
  /** Reads several keys in one snapshot. */
  // deno-lint-ignore no-explicit-any -- Deno maps a tuple to a tuple, which is not needed here
  getMany(keys: any): Promise<readonly KvEntry[]>;
  /** Reads a range, in the order of the keys. */
  // deno-lint-ignore no-explicit-any -- Deno's selector is a union; a subset of it is used
  list(selector: any, options?: { limit?: number; batchSize?: number }): AsyncIterable<KvEntry>;
  /** Starts an atomic change. */
  atomic(): KvAtomic;
  /** Returns a stream that emits whenever one of the keys is written. */
  // deno-lint-ignore no-explicit-any -- as with getMany
  watch(keys: any): ReadableStream<unknown>;
  /** Closes the store and its watches. */
  close(): void;
}
