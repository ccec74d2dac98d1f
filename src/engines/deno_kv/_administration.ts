// What is read and changed without a lease: peek, stats, pause, limit, purge, and the queues of a store.

import type { EngineStats, MessageState, RateLimit, StoredMessage } from "../../mailbox/engine.ts";
import { MAX_PRIORITY } from "../../mailbox/envelope.ts";
import { QueueControl } from "../../mailbox/queue_control.ts";
import { changeControl, readControl } from "./_control.ts";
import type { KvAtomic, KvEntry, KvKey } from "./kv.ts";
import { KvDelivery } from "./_leases.ts";
import { Lines } from "./_lines.ts";
import { idStateOf, type Keys, ROOT } from "./_keys.ts";
import { type KvMessage, unpackAll } from "./_record.ts";
import { largeOf } from "./_receiver.ts";
import type { Store } from "./_store.ts";

/** How many keys a commit deletes and checks at most. */
const STEP = 80;

/** A stored message and where it is. */
interface Found {
  readonly message: KvMessage;
  readonly state: MessageState;
}

/** Reads and deletes the messages of a queue in any state. */
export class Administration {
  readonly #name: string;
  readonly #store: Store;
  readonly #keys: Keys;
  readonly #lines: Lines;

  constructor(name: string, store: Store, keys: Keys) {
    this.#name = name;
    this.#store = store;
    this.#keys = keys;
    this.#lines = new Lines(store, keys);
  }

  /** Returns the oldest messages after the first `skip`, whatever their state. It reads those as well. */
  async peek(max: number, skip: number): Promise<readonly StoredMessage<string>[]> {
    const action = this.#action("peek");
    const [ready, blocked, { found }] = await Promise.all([
      this.#ready(action, skip + max),
      this.#store.list(action, { prefix: this.#keys.blocked }),
      this.#hidden(action),
    ]);
    const all = [...[...ready, ...blocked].flatMap(waitingIn), ...found];
    const oldest = all.sort((a, b) => a.message.seq - b.message.seq)
      .slice(skip, skip + max);
    const texts = await largeOf(this.#store, this.#keys, action, oldest.map((it) => it.message));
    return oldest.map(({ message, state }) => {
      const whole = texts.get(message) ?? message;
      const { id, meta, body, deliveryCount, enqueuedAt } = new KvDelivery(
        whole,
        [],
        "",
        0,
        undefined,
      );
      return { id, meta, body, deliveryCount, enqueuedAt, state };
    });
  }

  /** Reads the hidden messages, and the first ones of the others. `count` is the number of all. */
  async stats(count: number): Promise<EngineStats> {
    const action = this.#action("count");
    const [ready, blocked, { found, isControlled }] = await Promise.all([
      this.#ready(action, 1),
      this.#firstOfEach(action, this.#keys.blocked),
      this.#hidden(action),
    ]);
    const counts = { waiting: 0, delayed: 0, inFlight: 0 };
    for (const { state } of found) counts[state]++;
    // Numbers grow with the time of the send, so the first message of a block is its oldest.
    const oldestAt = [...[...ready, ...blocked].flatMap(waitingIn), ...found]
      .filter(({ state }) => state === "waiting")
      .reduce((least, { message }) => Math.min(least, message.enqueuedAt), Infinity);
    const { delayed, inFlight } = counts;
    const now = this.#store.clock.now();
    const control = isControlled
      ? (await readControl(this.#store, this.#keys, action)).control
      : new QueueControl();
    return {
      waiting: Math.max(0, count - delayed - inFlight), // the answers are of several moments
      ...{ delayed, inFlight, ...control.stats(now) },
      ...(oldestAt < Infinity && { oldestWaitingMs: Math.max(0, now - oldestAt) }),
    };
  }

  /** Pauses the queue, or with 0 resumes it. */
  async pause(forMs: number): Promise<void> {
    const action = this.#action(forMs > 0 ? "pause" : "resume");
    await changeControl(this.#store, this.#keys, action, (it, now) => it.pause(forMs, now));
  }

  /** Limits the deliveries, or ends the limit. */
  async rateLimit(limit: RateLimit | undefined): Promise<void> {
    await changeControl(this.#store, this.#keys, this.#action("limit"), (it) => it.limit(limit));
  }

  /** Deletes in several commits, each with an exact count. It also deletes messages sent meanwhile. */
  async purge(): Promise<number> {
    const { blocked, ready, hidden, ids } = this.#keys;
    let purged = 0;
    for (const prefix of [blocked, ready, hidden]) {
      for (let step = -1; step !== 0; purged += step) {
        step = await this.#store.retryConflicts(this.#action("purge"), () => this.#purge(prefix));
      }
    }
    await this.#deleteAll(ids, (entry) => !idStateOf(entry).isStored);
    return purged;
  }

  /** Deletes every key of these queues. */
  async drop(...queues: readonly Keys[]): Promise<void> {
    for (const { all } of queues) await this.#deleteAll(all);
  }

  /** Returns the names of all queues in the store, without their dead letters. */
  async queues(): Promise<string[]> {
    const firsts = await this.#firstOfEach("list the queues", [ROOT]);
    return firsts.map(({ key }) => String(key[1])).filter((name) => !name.endsWith(".dead"));
  }

  #action(verb: string): string {
    return `${verb} ("${this.#name}")`;
  }

  /** Reads up to `max` blocks of ready messages of each priority. */
  async #ready(action: string, max: number): Promise<readonly KvEntry[]> {
    const { ready } = this.#keys;
    const prioritized = Array.from({ length: MAX_PRIORITY }, (_, i) => this.#keys.readyWith(i + 1));
    const entries = await Promise.all([
      this.#store.list(action, { prefix: ready, start: [...ready, 0] }, max),
      ...prioritized.map((prefix) => this.#store.list(action, { prefix }, max)),
    ]);
    return entries.flat();
  }

  /** Reads the first entry of each text that follows `prefix` in a key, and no others. */
  async #firstOfEach(action: string, prefix: KvKey): Promise<readonly KvEntry[]> {
    const firsts: KvEntry[] = [];
    for (let start: KvKey = [...prefix, ""];;) {
      const [entry] = await this.#store.list(action, { prefix, start }, 1);
      if (entry === undefined) return firsts;
      firsts.push(entry);
      start = [...prefix, `${entry.key[prefix.length]}\0`]; // the first text after this one
    }
  }

  /** Reads the messages that are hidden, also those whose time has passed. */
  async #hidden(
    action: string,
  ): Promise<{ readonly found: readonly Found[]; readonly isControlled: boolean }> {
    const { hidden, controlled } = this.#keys;
    const entries = await this.#store.list(action, { prefix: hidden });
    const now = this.#store.clock.now();
    const found = entries.flatMap((entry) => {
      const isDue = Number(entry.key[hidden.length]) <= now;
      return unpackAll(entry).map((message): Found => {
        return { message, state: isDue ? "waiting" : message.leased ? "inFlight" : "delayed" };
      });
    });
    return { found, isControlled: entries[0]?.key.length === controlled.length };
  }

  /** Deletes some messages and returns their number; undefined when another process changed one first. */
  async #purge(prefix: KvKey): Promise<number | undefined> {
    const action = this.#action("purge");
    const entries: KvEntry[] = [];
    const messages: KvMessage[] = [];
    let checks = 0;
    await this.#store.list(action, { prefix }, STEP, (entry) => {
      const some = unpackAll(entry);
      checks += 1 + some.filter(({ key }) => key !== undefined).length;
      if (checks > STEP) return true;
      if (some.length > 0) entries.push(entry); // the mark of a control has no messages
      messages.push(...some);
      return messages.length >= STEP;
    });
    if (messages.length === 0) return 0;
    // A blocked message is not the first one with its key.
    const leaving = prefix === this.#keys.blocked ? [] : messages.filter(({ joined }) => joined);
    const followers = await this.#lines.next(action, leaving);
    if (followers.some(({ block }) => block !== undefined)) {
      return await this.#purge(this.#keys.blocked) || undefined; // those behind them first
    }
    const versionstamp = await this.#store.commit(action, (atomic) => {
      for (const { key, versionstamp } of entries) atomic.check({ key, versionstamp }).delete(key);
      for (const message of messages) this.#keys.deleteExtras(atomic, message, Infinity);
      for (const next of followers) this.#lines.leave(atomic, next);
      subtract(atomic, this.#keys.count, messages.length);
    });
    return versionstamp === undefined ? undefined : messages.length;
  }

  /** Deletes entries: all, or those that are selected and do not change meanwhile. */
  async #deleteAll(prefix: KvKey, isSelected?: (entry: KvEntry) => boolean): Promise<void> {
    const action = this.#action("delete");
    const all = await this.#store.list(action, { prefix });
    const entries = isSelected === undefined ? all : all.filter(isSelected);
    for (let i = 0; i < entries.length; i += STEP) {
      await this.#store.commit(action, (atomic) => {
        for (const { key, versionstamp } of entries.slice(i, i + STEP)) {
          if (isSelected !== undefined) atomic.check({ key, versionstamp });
          atomic.delete(key);
        }
      });
    }
  }
}

/** Subtracts from a counter. Deno KV adds modulo 2⁶⁴. */
export function subtract(atomic: KvAtomic, counter: KvKey, count: number): void {
  atomic.sum(counter, BigInt.asUintN(64, BigInt(-count)));
}

function waitingIn(entry: KvEntry): Found[] {
  return unpackAll(entry).map((message) => ({ message, state: "waiting" }));
}
