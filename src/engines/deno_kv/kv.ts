/**
 * What of Deno KV is used. What `Deno.openKv` gives fits as it is; no types of Deno are needed.
 *
 * @module
 */

/** A part of a key. */
export type KvKeyPart = string | number | bigint | boolean | Uint8Array;

/** A key. */
export type KvKey = readonly KvKeyPart[];

/** What is stored at a key; nothing when there is no versionstamp. */
export interface KvEntry {
  /** Where it is. */
  readonly key: KvKey;
  /** What was stored, or null. */
  readonly value: unknown;
  /** Changes with every write; null when there is nothing. */
  readonly versionstamp: string | null;
}

/** A change that is made as a whole or not at all. */
export interface KvAtomic {
  /** The commit fails when one of these has changed since. */
  check(...checks: { readonly key: KvKey; readonly versionstamp: string | null }[]): KvAtomic;
  /** Stores a value. */
  set(key: KvKey, value: unknown): KvAtomic;
  /** Removes what is there. */
  delete(key: KvKey): KvAtomic;
  /** Adds to a 64-bit counter. */
  sum(key: KvKey, n: bigint): KvAtomic;
  /** Makes the change; `ok` is false when a check failed. */
  commit(): Promise<{ readonly ok: boolean; readonly versionstamp?: string }>;
}

/** A selection of keys, in their order. */
export interface KvSelector {
  /** All keys that begin with this. */
  readonly prefix: KvKey;
  /** Only keys before this one. */
  readonly end?: KvKey;
}

/** A store, as `Deno.openKv` opens it. */
export interface Kv {
  /** Reads one key. */
  get(key: KvKey): Promise<KvEntry>;
  /** Reads several keys at one moment. */
  // deno-lint-ignore no-explicit-any -- it takes a tuple and gives one, which is nothing to us
  getMany(keys: any): Promise<readonly KvEntry[]>;
  /** Reads a range, in the order of the keys. */
  // deno-lint-ignore no-explicit-any -- its selectors are a union that a subset of it fits
  list(selector: any, options?: { limit?: number; batchSize?: number }): AsyncIterable<KvEntry>;
  /** Begins a change. */
  atomic(): KvAtomic;
  /** Says something whenever one of the keys was written. */
  // deno-lint-ignore no-explicit-any -- as with getMany
  watch(keys: any): ReadableStream<unknown>;
  /** Ends its connection, and its watches. */
  close(): void;
}
