/**
 * Mailboxes in Deno KV.
 *
 * @module
 */

export { DenoKvMailbox, type DenoKvMailboxOptions } from "./deno_kv_mailbox.ts";
export type { Kv, KvAtomic, KvEntry, KvKey, KvKeyPart, KvSelector } from "./kv.ts";
