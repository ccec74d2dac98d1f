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
  readonly key: KvKey;
  readonly value: unknown;
  readonly versionstamp: string | null;
}

/** A change that is made as a whole or not at all. */
export interface KvAtomic {
  check(...checks: { readonly key: KvKey; readonly versionstamp: string | null }[]): KvAtomic;
  set(key: KvKey, value: unknown): KvAtomic;
  delete(key: KvKey): KvAtomic;
  sum(key: KvKey, n: bigint): KvAtomic;
  commit(): Promise<{ readonly ok: boolean; readonly versionstamp?: string }>;
}

/** A selection of keys, in their order. */
export interface KvSelector {
  readonly prefix: KvKey;
  readonly end?: KvKey;
}

/** A store, as `Deno.openKv` opens it. */
export interface Kv {
  get(key: KvKey): Promise<KvEntry>;
  // deno-lint-ignore no-explicit-any -- it takes a tuple and gives one, which is nothing to us
  getMany(keys: any): Promise<readonly KvEntry[]>;
  // deno-lint-ignore no-explicit-any -- its selectors are a union that a subset of it fits
  list(selector: any, options?: { limit?: number; batchSize?: number }): AsyncIterable<KvEntry>;
  atomic(): KvAtomic;
  // deno-lint-ignore no-explicit-any -- as with getMany
  watch(keys: any): ReadableStream<unknown>;
  close(): void;
}
