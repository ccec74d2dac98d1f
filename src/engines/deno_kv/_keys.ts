// The keys of a queue, and the values of the keys of ids.

import type { KvAtomic, KvEntry, KvKey } from "./kv.ts";
import type { KvMessage, Placed } from "./_record.ts";

/** The first part of every key. */
export const ROOT = "lastcall";

/** The keys of a queue. */
export class Keys {
  /** The prefix of every key of the queue. */
  readonly all: KvKey;
  /** Ready messages in blocks, by priority and the number of the first message. */
  readonly ready: KvKey;
  /** Leased and delayed messages, by due time. */
  readonly hidden: KvKey;
  /** Exists while the queue is paused or has a limit. Sorts before all hidden messages, so that a receive finds it. */
  readonly controlled: KvKey;
  /** The pause and the rate limit as JSON. Without it, `controlled` means a pause until it is resumed. */
  readonly control: KvKey;
  /** The processes that lease messages. */
  readonly owners: KvKey;
  /** Messages that wait behind another one with the same key, in blocks. */
  readonly blocked: KvKey;
  /** The states of ids that senders chose. */
  readonly ids: KvKey;
  /** The number of messages. */
  readonly count: KvKey;
  /** A counter that changes whenever messages may have become visible. */
  readonly wakes: KvKey;

  constructor(name: string) {
    this.all = [ROOT, name];
    this.ready = [...this.all, "ready"];
    this.hidden = [...this.all, "hidden"];
    this.controlled = [...this.hidden, -1];
    this.control = [...this.all, "control"];
    this.owners = [...this.all, "owner"];
    this.blocked = [...this.all, "blocked"];
    this.ids = [...this.all, "id"];
    this.count = [...this.all, "count"];
    this.wakes = [...this.all, "wakes"];
  }

  /** Returns the key of a message that becomes visible at `dueAt`, or that is visible if it is omitted. */
  placeOf({ seq, nonce, priority }: Placed, dueAt?: number): KvKey {
    if (dueAt !== undefined) return [...this.hidden, dueAt, seq, nonce];
    return priority === 0 ? [...this.ready, seq, nonce] : [...this.readyWith(priority), seq, nonce];
  }

  /** Returns the key prefix of ready messages with a priority above 0. They sort before all others. */
  readyWith(priority: number): KvKey {
    return [...this.ready, -priority];
  }

  /** Exists while the queue has messages with this key. Changes whenever a message joins them. */
  line(key: string): KvKey {
    return [...this.all, "line", key];
  }

  /** Returns the key of a message that waits behind another one with the same key. */
  blockedPlaceOf(key: string, { seq, nonce }: Placed): KvKey {
    return [...this.blocked, key, seq, nonce];
  }

  /** Holds the {@linkcode IdState} of an id that a sender chose. */
  chosenId(id: string): KvKey {
    return [...this.ids, id];
  }

  /** Holds the checkpoint of a message. The name is that of version 0.1. */
  checkpoint({ seq, nonce }: KvMessage): KvKey {
    return [...this.all, "progress", seq, nonce];
  }

  /** Returns the keys of the parts of a large message, in order. */
  parts({ seq, nonce, parts }: KvMessage): KvKey[] {
    return Array.from({ length: parts }, (_, i) => [...this.all, "part", seq, nonce, i]);
  }

  /** Deletes everything of a message except its record. Keeps an id that must be remembered. */
  deleteExtras(atomic: KvAtomic, message: KvMessage, now: number): void {
    const { id, dedup, hasCheckpoint, rememberedUntil } = message;
    if (hasCheckpoint) atomic.delete(this.checkpoint(message));
    for (const key of this.parts(message)) atomic.delete(key);
    if (!dedup) return;
    const expireIn = Math.ceil(rememberedUntil - now); // the store takes whole numbers only
    if (expireIn <= 0) atomic.delete(this.chosenId(id));
    else atomic.set(this.chosenId(id), idValue(false, rememberedUntil), { expireIn });
  }

  /** The approximate size of one key in bytes. A commit limits their sum. */
  get bytes(): number {
    return String(this.all[1]).length + 64;
  }
}

/** The state of a chosen id. */
export interface IdState {
  /** A message with the id is stored. */
  readonly isStored: boolean;
  /** When the id is forgotten, in milliseconds since the Unix epoch; 0 if it is not remembered. */
  readonly until: number;
}

/** Returns the stored form of an {@linkcode IdState}. Version 0.1 stored 1 for a stored message. */
export function idValue(isStored: boolean, until: number): unknown {
  return isStored && until === 0 ? 1 : [isStored, until];
}

/** Decodes a value of {@linkcode idValue}. */
export function idStateOf({ value }: KvEntry): IdState {
  if (value === null) return { isStored: false, until: 0 };
  if (!Array.isArray(value)) return { isStored: true, until: 0 };
  return { isStored: value[0] === true, until: Number.isFinite(value[1]) ? value[1] : 0 };
}
