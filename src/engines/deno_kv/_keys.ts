import type { KvKey } from "./kv.ts";

/** The keys of a queue. */
export class Keys {
  /** Ready messages in blocks, by the number of the first message. */
  readonly ready: KvKey;
  /** Leased and delayed messages, by due time. */
  readonly hidden: KvKey;
  /** The number of messages. */
  readonly count: KvKey;
  /** A counter that changes whenever messages may have become visible. */
  readonly wakes: KvKey;
  readonly #name: string;

  constructor(name: string) {
    this.#name = name;
    this.ready = ["lastcall", name, "ready"];
    this.hidden = ["lastcall", name, "hidden"];
    this.count = ["lastcall", name, "count"];
    this.wakes = ["lastcall", name, "wakes"];
  }

  readyAt(seq: number, nonce: string): KvKey {
    return [...this.ready, seq, nonce];
  }

  hiddenAt(dueAt: number, seq: number, nonce: string): KvKey {
    return [...this.hidden, dueAt, seq, nonce];
  }

  /** Exists for an id that a sender chose, as long as its message exists. */
  chosenId(id: string): KvKey {
    return ["lastcall", this.#name, "id", id];
  }

  /** The checkpoint of a message. */
  progress(seq: number, nonce: string): KvKey {
    return ["lastcall", this.#name, "progress", seq, nonce];
  }

  /** The approximate size of one key in bytes. A commit limits their sum. */
  get bytes(): number {
    return this.#name.length + 64;
  }
}
