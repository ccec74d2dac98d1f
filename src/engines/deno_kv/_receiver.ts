import { checkControl, readControl, saveControl, type StoredControl } from "./_control.ts";
import type { KvEntry } from "./kv.ts";
import { KvDelivery } from "./_leases.ts";
import { Lines } from "./_lines.ts";
import type { KvOwner } from "./_owner.ts";
import type { Keys } from "./_keys.ts";
import {
  blocksOf,
  DAMAGED,
  inOrder,
  type KvMessage,
  pack,
  recordsIn,
  unpackAll,
  weightOf,
  withText,
} from "./_record.ts";
import { chunksOf, type Store } from "./_store.ts";

/** How many due messages a receive considers. Only when more are due, some may be delivered out of order. */
const MAX_DUE = 1_000;

/** How many messages join the messages of their keys in one commit. */
const MAX_JOINS = 10;

/** An entry of the store, and how many of its messages a receive takes. */
interface Source {
  readonly entry: KvEntry;
  readonly messages: readonly KvMessage[];
  taken: number;
}

/** The result of a receive. */
export interface KvReceived {
  readonly deliveries: readonly KvDelivery[];
  readonly nextDueMs: number;
}

/** Leases messages, one receive at a time: parallel receives of this process would conflict. */
export class Receiver {
  readonly #name: string;
  readonly #store: Store;
  readonly #keys: Keys;
  readonly #lines: Lines;
  readonly #owner: KvOwner | undefined;
  #last: Promise<unknown> = Promise.resolve();

  constructor(name: string, store: Store, keys: Keys, owner: KvOwner | undefined) {
    this.#name = name;
    this.#store = store;
    this.#keys = keys;
    this.#owner = owner;
    this.#lines = new Lines(store, keys);
  }

  receive(max: number, visibilityMs: number): Promise<KvReceived> {
    const received = this.#last.then(() => this.#attempt(max, visibilityMs));
    this.#last = received.catch(() => {});
    return received;
  }

  async #attempt(max: number, visibilityMs: number): Promise<KvReceived> {
    const owner = this.#owner;
    owner?.begin();
    try {
      const attempt = () => this.#receive(max, visibilityMs);
      const received = await this.#store.retryConflicts(this.#action, attempt);
      owner?.hold(received.deliveries);
      return received;
    } finally {
      owner?.end();
    }
  }

  get #action(): string {
    return `receive ("${this.#name}")`;
  }

  /**
   * Resolves with undefined when another process changed the entries first. Delivers once messages have joined their
   * keys, if it can. If very many are due, the rest joins in later receives.
   */
  async #receive(
    max: number,
    visibilityMs: number,
    hasJoined = false,
  ): Promise<KvReceived | undefined> {
    const now = this.#store.clock.now();
    const entries = await this.#entries(max, now);
    let stored: StoredControl | undefined;
    if (entries[0]?.key.length === this.#keys.controlled.length) {
      stored = await readControl(this.#store, this.#keys, this.#action);
      const allowance = stored.control.allowance(max, now);
      if (allowance.max === 0) return { deliveries: [], nextDueMs: allowance.nextMs };
      max = allowance.max;
    }
    const found = entries.map(sourceOf);
    const joining = found.filter(isJoining);
    const sources = firstOf(found.filter((it) => !isJoining(it)), max);
    // All due messages join, also those beyond `max`, so that a message that is sent later comes after them.
    if (joining.length > 0 && (!hasJoined || sources.length === 0)) {
      return await this.#join(joining) ? await this.#receive(max, visibilityMs, true) : undefined;
    }
    if (sources.length === 0) {
      const dueMs = await this.#nextDueMs(now);
      if (dueMs < Infinity) this.#owner?.look();
      const nextDueMs = await this.#owner?.waitMs(this.#action, dueMs) ?? dueMs;
      return { deliveries: [], nextDueMs };
    }
    this.#owner?.look();
    // Neither can change while no worker has the lease.
    const taken = sources.flatMap(({ messages, taken }) => messages.slice(0, taken));
    const [checkpoints, large] = await Promise.all([
      this.#checkpointsOf(taken),
      largeOf(this.#store, this.#keys, this.#action, taken),
    ]);
    const dueAt = Math.ceil(now + visibilityMs);
    const deliveries: KvDelivery[] = [];
    const chunks = chunksOf(sources, ({ taken, messages }) => ({
      keyBytes: this.#keys.bytes * (taken + 3),
      bytes: messages.reduce((sum, message) => sum + weightOf(message), 0),
    }));
    for (const chunk of chunks) {
      const versionstamp = await this.#take(chunk, dueAt, now, stored);
      if (versionstamp === undefined) return deliveries.length > 0 ? done(deliveries) : undefined;
      for (const { messages, taken } of chunk) {
        for (const message of messages.slice(0, taken)) {
          const whole = delivered(large.get(message) ?? message, this.#owner?.id);
          const key = this.#keys.placeOf(message, dueAt);
          const checkpoint = checkpoints.get(message);
          deliveries.push(new KvDelivery(whole, key, versionstamp, dueAt, checkpoint));
        }
      }
      if (stored !== undefined) break; // other processes may deliver before the next commit
    }
    return done(deliveries.sort((a, b) => inOrder(a.message, b.message)));
  }

  /** Reads the due messages, and blocks with `max` ready ones. The first may be the mark of a control. */
  async #entries(max: number, now: number): Promise<readonly KvEntry[]> {
    let count = 0;
    const { hidden, ready } = this.#keys;
    const due = { prefix: hidden, end: [...hidden, Math.floor(now) + 1] };
    const entries = await Promise.all([
      this.#store.list(this.#action, due, MAX_DUE),
      this.#store.list(this.#action, { prefix: ready }, max, (entry) => {
        return (count += recordsIn(entry).length) >= max;
      }),
    ]);
    return entries.flat();
  }

  async #take(
    sources: readonly Source[],
    dueAt: number,
    now: number,
    stored: StoredControl | undefined,
  ): Promise<string | undefined> {
    const stamps = this.#owner?.needsStamp() ?? false;
    stored?.control.delivered(sources.reduce((sum, { taken }) => sum + taken, 0), now);
    const versionstamp = await this.#store.commit(this.#action, (atomic) => {
      if (stored === undefined) {
        atomic.check({ key: this.#keys.controlled, versionstamp: null });
      } else {
        checkControl(atomic, stored);
        saveControl(atomic, this.#keys, stored.control, now);
      }
      if (stamps) this.#owner?.stamp(atomic);
      for (const { entry: { key, versionstamp }, messages, taken } of sources) {
        atomic.check({ key, versionstamp }).delete(key);
        for (const message of messages.slice(0, taken)) {
          const leased = delivered(message, this.#owner?.id);
          atomic.set(this.#keys.placeOf(message, dueAt), [pack(leased)]);
        }
        // Usually one block; damaged messages may have grown.
        for (const block of blocksOf(messages.slice(taken))) {
          atomic.set(this.#keys.placeOf(block), block.value);
        }
      }
    });
    if (stamps && versionstamp !== undefined) this.#owner?.stamped(versionstamp);
    return versionstamp;
  }

  /** Reads the checkpoints of messages. */
  async #checkpointsOf(messages: readonly KvMessage[]): Promise<ReadonlyMap<KvMessage, string>> {
    const saved = messages.filter(({ hasCheckpoint }) => hasCheckpoint);
    const keys = saved.map((message) => this.#keys.checkpoint(message));
    const entries = await this.#store.getAll(this.#action, keys);
    const decoder = new TextDecoder();
    return new Map(entries.flatMap(({ value }, i) => {
      const text = value instanceof Uint8Array ? decoder.decode(value) : DAMAGED;
      return value === null ? [] : [[saved[i]!, text]];
    }));
  }

  /**
   * Lets messages whose delay is over join the messages of their keys: each becomes ready, or blocked. Each
   * has an entry of its own. Returns false when another process changed the entries first.
   */
  async #join(joining: readonly Source[]): Promise<boolean> {
    for (let i = 0; i < joining.length; i += MAX_JOINS) {
      if (!await this.#joinSome(joining.slice(i, i + MAX_JOINS))) return false;
    }
    return true;
  }

  async #joinSome(joining: readonly Source[]): Promise<boolean> {
    const messages = joining.map(({ messages: [message] }) => ({ ...message!, joined: true }));
    const lines = await this.#lines.read(this.#action, messages);
    const taken = new Set([...lines].flatMap(([key, { value }]) => value === null ? [] : key));
    const versionstamp = await this.#store.commit(this.#action, (atomic) => {
      for (const { entry: { key, versionstamp } } of joining) {
        atomic.check({ key, versionstamp }).delete(key);
      }
      this.#lines.join(atomic, lines.values());
      for (const message of messages) {
        const key = message.key!;
        if (taken.has(key)) this.#lines.block(atomic, key, [message]);
        else atomic.set(this.#keys.placeOf(message), [pack(message)]);
        taken.add(key);
      }
    });
    return versionstamp !== undefined;
  }

  async #nextDueMs(now: number): Promise<number> {
    const { hidden } = this.#keys;
    const messages = { prefix: hidden, start: [...hidden, 0] };
    const [next] = await this.#store.list(this.#action, messages, 1);
    return next === undefined ? Infinity : Math.max(0, Number(next.key[hidden.length]) - now);
  }
}

function sourceOf(entry: KvEntry): Source {
  return { entry, messages: unpackAll(entry), taken: 0 };
}

/** Returns the sources of the first messages, up to `max` messages. */
function firstOf(sources: readonly Source[], max: number): readonly Source[] {
  const all = sources.flatMap((source) => {
    return source.messages.map((message) => ({ message, source }));
  });
  all.sort((a, b) => inOrder(a.message, b.message));
  for (const { source } of all.slice(0, max)) source.taken++;
  return sources.filter(({ taken }) => taken > 0);
}

/** Reads the texts of the large messages. */
export async function largeOf(
  store: Store,
  keys: Keys,
  action: string,
  messages: readonly KvMessage[],
): Promise<ReadonlyMap<KvMessage, KvMessage>> {
  const large = messages.filter(({ parts }) => parts > 0);
  return new Map(
    await Promise.all(large.map(async (message) => {
      const entries = await store.getAll(action, keys.parts(message));
      return [message, withText(message, entries.map(({ value }) => value))] as const;
    })),
  );
}

/** Returns true for the entry of a message with a key whose delay has ended. It has no other message. */
function isJoining({ messages: [message, other] }: Source): boolean {
  return message?.key !== undefined && !message.joined && other === undefined;
}

function done(deliveries: readonly KvDelivery[]): KvReceived {
  return { deliveries, nextDueMs: 0 };
}

function delivered(message: KvMessage, owner: string | undefined): KvMessage {
  const { deliveries, leased, expiries } = message;
  return {
    ...message,
    deliveries: deliveries + 1,
    expiries: expiries + (leased ? 1 : 0),
    leased: true,
    owner,
  };
}
