import type { KvAtomic, KvEntry } from "./kv.ts";
import type { Keys } from "./_keys.ts";
import { blocksOf, type KvMessage, pack, unpackAll } from "./_record.ts";
import type { Store } from "./_store.ts";

/** What happens to the messages of a key when the first one leaves. */
export interface Next {
  readonly key: string;
  readonly line: KvEntry;
  /** The block with the next message; undefined when there is none. */
  readonly block: KvEntry | undefined;
}

/**
 * The messages of a key: the first one is ready or hidden, the others are blocked, and a line exists while
 * there are any.
 *
 * ```text
 * send, delay over ─▶ no line: creates it, ready     ─▶ gone: the next one becomes ready, or deletes the line
 *                  └▶ a line: changes it, blocked ───────▲
 * ```
 *
 * Every commit that appends a message checks the line and changes it, and every commit that deletes the line
 * checks it. So no message joins a line that is being deleted, and a crash leaves no key blocked.
 */
export class Lines {
  readonly #store: Store;
  readonly #keys: Keys;

  constructor(store: Store, keys: Keys) {
    this.#store = store;
    this.#keys = keys;
  }

  /** Reads the lines of messages, by key. */
  async read(
    action: string,
    messages: readonly { readonly key?: string | undefined }[],
  ): Promise<ReadonlyMap<string, KvEntry>> {
    const keys = [...new Set(messages.flatMap(({ key }) => key ?? []))];
    if (keys.length === 0) return new Map();
    const entries = await this.#store.getAll(action, keys.map((key) => this.#keys.line(key)));
    return new Map(keys.map((key, i) => [key, entries[i]!]));
  }

  /** Checks lines that {@linkcode read} returned, and changes them, so that they exist. */
  join(atomic: KvAtomic, lines: Iterable<KvEntry>): void {
    for (const { key, versionstamp } of lines) atomic.check({ key, versionstamp }).set(key, 1);
  }

  /** Stores messages of one key that are not the first. */
  block(atomic: KvAtomic, key: string, messages: readonly KvMessage[]): void {
    for (const block of blocksOf(messages)) {
      atomic.set(this.#keys.blockedPlaceOf(key, block), block.value);
    }
  }

  /** Reads what follows messages that leave. Only the first message of a key can leave. */
  async next(action: string, messages: readonly KvMessage[]): Promise<readonly Next[]> {
    const lines = await this.read(action, messages);
    return await Promise.all([...lines].map(async ([key, line]) => {
      const prefix = [...this.#keys.blocked, key];
      const [block] = await this.#store.list(action, { prefix }, 1);
      return { key, line, block };
    }));
  }

  /** Makes the next message ready, or deletes the line. Returns true when a message became ready. */
  leave(atomic: KvAtomic, { key, line, block }: Next): boolean {
    if (block === undefined) {
      atomic.check({ key: line.key, versionstamp: line.versionstamp }).delete(line.key);
      return false;
    }
    atomic.check({ key: block.key, versionstamp: block.versionstamp }).delete(block.key);
    // Restore the key of a damaged message, so that the messages behind it follow.
    const [next, ...others] = unpackAll(block).map((it) => ({ ...it, key, joined: true }));
    atomic.set(this.#keys.placeOf(next!), [pack(next!)]);
    this.block(atomic, key, others);
    return true;
  }
}
