import type { Clock } from "../../clock.ts";
import {
  type Delivery,
  type Engine,
  type EngineStats,
  type Entry,
  FREE_RELEASES,
  freshnessOf,
  type Maybe,
  type OffThreadPlan,
  type Received,
} from "../../mailbox/engine.ts";
import { fullError } from "../../mailbox/errors.ts";
import { BASIC_CAPABILITIES, type Capabilities } from "../../mailbox/mailbox.ts";
import type { Random } from "../../random.ts";
import type { Connection } from "./_connection.ts";
import type { SqliteValue } from "./drivers.ts";
import type { Durability } from "./_file.ts";
import { type Row, SqliteDelivery, type Statements } from "./_schema.ts";
import { addReceiver, wakeReceivers } from "./_wake_ups.ts";

/** Options of {@linkcode SqliteEngine}. */
export interface SqliteEngineOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly maxSize: number;
  /** True when another thread can open the file with the same driver. @default {false} */
  readonly offThread?: boolean;
}

/** What another thread needs to extend leases. It is copied to that thread. */
export interface ExtenderOptions {
  readonly path: string;
  readonly queue: string;
  readonly durability: Durability;
}

/** The statements that need a valid receipt handle. */
type Settlement = "acknowledge" | "extend" | "nack" | "release" | "checkpoint";

/**
 * How many due messages one receive makes ready. Only when more fall due between two receives, some may be
 * delivered before an older one.
 */
const MAX_DUE = 10_000;

/**
 * One queue of a file.
 *
 * Due times are by the wall clock of the machine, which all its processes share. When the clock is set,
 * leases and delays become longer or shorter by the difference; receipt handles do not depend on it.
 */
export class SqliteEngine implements Engine<string> {
  readonly capabilities: Capabilities = BASIC_CAPABILITIES;
  readonly label = "SQLite";
  readonly #queue: string;
  readonly #connection: Connection;
  readonly #options: SqliteEngineOptions;

  constructor(queue: string, connection: Connection, options: SqliteEngineOptions) {
    this.#queue = queue;
    this.#connection = connection;
    this.#options = options;
  }

  async send(entries: readonly Entry<string>[]): Promise<boolean[]> {
    const stored = await this.#connection.write(() => {
      this.#checkRoom(entries);
      return this.#store(this.#queue, entries);
    });
    this.#wake(this.#queue);
    return stored;
  }

  async receive(max: number, visibilityMs: number): Promise<Received<string>> {
    // This read does not need the write lock, which the lease needs.
    const nextDueMs = await this.#connection.read(() => this.#nextDueMs());
    if (nextDueMs > 0) return { deliveries: [], nextDueMs };
    return await this.#connection.write(() => this.#lease(max, visibilityMs));
  }

  acknowledge(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    return this.#connection.write(() => this.#acknowledge(deliveries));
  }

  extend(deliveries: readonly Delivery<string>[], visibilityMs: number): Promise<boolean[]> {
    return this.#connection.write(() => {
      return this.#settle("extend", deliveries, this.#now + visibilityMs);
    });
  }

  async nack(
    deliveries: readonly Delivery<string>[],
    delayMs: number,
    countsAttempt: boolean,
  ): Promise<boolean[]> {
    const results = await this.#connection.write(() => {
      return this.#settle("nack", deliveries, this.#dueAt(delayMs), countsAttempt ? 0 : 1);
    });
    this.#wake(this.#queue);
    return results;
  }

  async release(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    const results = await this.#connection.write(() => {
      return this.#settle("release", deliveries, FREE_RELEASES);
    });
    this.#wake(this.#queue);
    return results;
  }

  async deadLetter(delivery: Delivery<string>, letter: Entry<string>): Promise<boolean> {
    const moved = await this.#connection.write(() => {
      const [removed = false] = this.#acknowledge([delivery]);
      if (removed) this.#store(this.#deadQueue, [letter]);
      return removed;
    });
    this.#wake(this.#deadQueue);
    return moved;
  }

  async checkpoint(delivery: Delivery<string>, checkpoint: string): Promise<boolean> {
    const [saved = false] = await this.#connection.write(() => {
      return this.#settle("checkpoint", [delivery], checkpoint);
    });
    return saved;
  }

  peek(max: number): Maybe<SqliteDelivery[]> {
    return this.#connection.read(() => {
      const values = [this.#queue, max, this.#queue, max, max];
      const rows = this.#statements.peek.all(...values) as Row[];
      return rows.map((row) => new SqliteDelivery(row));
    });
  }

  count(): Maybe<number> {
    return this.#connection.read(() => this.#count());
  }

  async stats(): Promise<EngineStats> {
    return { waiting: await this.count() };
  }

  purge(): Promise<number> {
    return this.#connection.write(() => {
      const { purge, resetCount } = this.#statements;
      const count = Number(purge.run(this.#queue).changes);
      resetCount.run(this.#queue);
      return count;
    });
  }

  onWake(listener: () => void): () => void {
    if (this.#connection.closing) return () => {};
    const removeReceiver = addReceiver(this.#connection.realPath, this.#queue, listener);
    const stopWatching = this.#connection.onForeignChange(listener);
    return () => {
      removeReceiver();
      stopWatching();
    };
  }

  deadLetters(): SqliteEngine {
    return new SqliteEngine(this.#deadQueue, this.#connection, {
      ...this.#options,
      maxSize: Infinity,
    });
  }

  offThread(): OffThreadPlan | undefined {
    if (this.#options.offThread !== true) return undefined;
    const { realPath: path, durability } = this.#connection;
    const options: ExtenderOptions = { path, queue: this.#queue, durability };
    return { engine: this.label, options };
  }

  close(): Promise<void> {
    return this.#connection.close();
  }

  get #statements(): Statements {
    return this.#connection.opened.statements;
  }

  get #now(): number {
    return this.#options.clock.now();
  }

  get #deadQueue(): string {
    return `${this.#queue}.dead`;
  }

  /** Returns the `due_at` for a delay. Without a delay the message is ready. */
  #dueAt(delayMs: number): number {
    return delayMs === 0 ? 0 : this.#now + delayMs;
  }

  #nextDueMs(): number {
    const { due_at } = this.#statements.nextDue.get(this.#queue) as { due_at: number | null };
    return due_at === null ? Infinity : Math.max(0, due_at - this.#now);
  }

  #lease(max: number, visibilityMs: number): Received<string> {
    if (this.#connection.closing) return { deliveries: [], nextDueMs: Infinity };
    const { isAnyDue, makeDueReady, oldestReady, lease } = this.#statements;
    const now = this.#now;
    // Usually none is due, and this read is cheaper than an update of no rows.
    if (isAnyDue.get(this.#queue, now)) makeDueReady.run(this.#queue, now, MAX_DUE);
    const rows = oldestReady.all(this.#queue, max) as Row[];
    const last = rows.at(-1);
    if (last === undefined) return { deliveries: [], nextDueMs: this.#nextDueMs() };
    const nonce = Math.floor(this.#options.random.number() * Number.MAX_SAFE_INTEGER);
    lease.run(now + visibilityMs, nonce, this.#queue, last.seq);
    return { deliveries: rows.map((row) => new SqliteDelivery(row, nonce)), nextDueMs: 0 };
  }

  #acknowledge(deliveries: readonly Delivery<string>[]): boolean[] {
    const results = this.#settle("acknowledge", deliveries);
    this.#addToCount(this.#queue, -results.filter(Boolean).length);
    return results;
  }

  /** Returns for each delivery whether its receipt handle was valid. */
  #settle(
    settlement: Settlement,
    deliveries: readonly Delivery<string>[],
    ...values: SqliteValue[]
  ): boolean[] {
    const statement = this.#statements[settlement];
    const now = this.#now;
    return (deliveries as readonly SqliteDelivery[]).map(({ seq, nonce }) => {
      return Number(statement.run(...values, seq, nonce, now).changes) > 0;
    });
  }

  /** Returns for each entry whether it was stored. */
  #store(queue: string, entries: readonly Entry<string>[]): boolean[] {
    const { send } = this.#statements;
    const now = Math.floor(this.#now);
    const stored = entries.map(({ id, body, meta = null, delayMs, dedup, checkpoint = null }) => {
      const dueAt = this.#dueAt(delayMs);
      const values = [queue, dueAt, dedup ? 1 : 0, id, now, meta, checkpoint, body];
      return Number(send.run(...values).changes) > 0;
    });
    this.#addToCount(queue, stored.filter(Boolean).length);
    return stored;
  }

  #checkRoom(entries: readonly Entry<string>[]): void {
    const { maxSize } = this.#options;
    if (maxSize === Infinity) return;
    const { isStored } = this.#statements;
    const isFresh = freshnessOf(entries, (id) => Boolean(isStored.get(this.#queue, id)));
    const fresh = isFresh.filter(Boolean).length;
    const count = this.#count();
    if (count + fresh > maxSize) throw fullError(this.#queue, count, maxSize, fresh);
  }

  #count(): number {
    const row = this.#statements.count.get(this.#queue) as { size: number } | null | undefined;
    return row?.size ?? 0;
  }

  #addToCount(queue: string, by: number): void {
    if (by !== 0) this.#statements.addToCount.run(queue, by);
  }

  #wake(queue: string): void {
    if (!this.#connection.closing) wakeReceivers(this.#connection.realPath, queue);
  }
}
