import type { KvKey } from "./kv.ts";

/** Where the parts of a queue are. */
export class Keys {
  /** Messages that may be taken, in blocks, by their place. */
  readonly ready: KvKey;
  /** Messages that are taken or delayed, by the time at which they may be taken. */
  readonly hidden: KvKey;
  /** How many messages there are. */
  readonly count: KvKey;
  /** Changes whenever messages may have become visible. */
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

  /** An id that its sender chose, as long as its message is there. */
  chosenId(id: string): KvKey {
    return ["lastcall", this.#name, "id", id];
  }

  /** Progress that was saved with a message. */
  progress(seq: number, nonce: string): KvKey {
    return ["lastcall", this.#name, "progress", seq, nonce];
  }

  /** About the size of one key: a commit takes only so many bytes of them. */
  get bytes(): number {
    return this.#name.length + 64;
  }
}
