import { type Clock, nextTurn } from "../../clock.ts";
import {
  type Delivery,
  type Engine,
  type EngineStats,
  type EngineTransaction,
  type Entry,
  FREE_RELEASES,
  type Maybe,
  type OffThreadPlan,
  type RateLimit,
  type Received,
} from "../../mailbox/engine.ts";
import { type Capabilities, FULL_CAPABILITIES } from "../../mailbox/mailbox.ts";
import type { QueueControl } from "../../mailbox/queue_control.ts";
import type { Random } from "../../random.ts";
import { CancelledMessages } from "./_cancelled.ts";
import { acknowledge, type Change, checkRoom, perform, store } from "./_changes.ts";
import type { Connection } from "./_connection.ts";
import { changeControl } from "./_control.ts";
import type { SqliteValue } from "./drivers.ts";
import type { ExtenderOptions } from "./_file.ts";
import { findById, showById } from "./_lookup.ts";
import type { Owners } from "./_owners.ts";
import { drop, peek, purge, queues, sizeOf, stats } from "./_queries.ts";
import { lease, nextDueMs } from "./_receive.ts";
import type { SqliteDelivery, Statements } from "./_statements.ts";
import { callerTransaction } from "./_transaction.ts";
import { wakeLocal } from "./_wake_ups.ts";

/** Options of {@linkcode SqliteEngine}. */
export interface SqliteEngineOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly maxSize: number;
  /** True when another thread can open the file with the same driver. @default {false} */
  readonly offThread?: boolean;
  /** Finds processes that have ended. @default {none: their leases expire} */
  readonly owners?: Owners;
}

/** What is left where this process cannot lock a file. */
const WITHOUT_OWNERS: Capabilities = { ...FULL_CAPABILITIES, ownerDetection: false };

/** The statements that need a valid receipt handle. */
type Settlement = "extend" | "nack" | "release" | "checkpoint";

/**
 * One queue of a file.
 *
 * Due times are by the wall clock of the machine, which all its processes share. When the clock is set,
 * leases and delays become longer or shorter by the difference; receipt handles do not depend on it.
 */
export class SqliteEngine implements Engine<string> {
  readonly label = "SQLite";
  readonly #queue: string;
  readonly #connection: Connection;
  readonly #options: SqliteEngineOptions;
  readonly #cancelled: CancelledMessages;

  constructor(queue: string, connection: Connection, options: SqliteEngineOptions) {
    this.#queue = queue;
    this.#connection = connection;
    this.#options = options;
    this.#cancelled = new CancelledMessages(queue, connection, options.clock);
  }

  get capabilities(): Capabilities {
    return this.#options.owners?.available ? FULL_CAPABILITIES : WITHOUT_OWNERS;
  }

  async send(entries: readonly Entry<string>[]): Promise<boolean[]> {
    const stored = await this.#connection.writeShared(() => this.#perform(this.#send(entries)));
    this.#wake(this.#queue);
    return stored;
  }

  async receive(max: number, visibilityMs: number): Promise<Received<string>> {
    const { clock, random, owners } = this.#options;
    const queue = this.#queue;
    const waitMs = (ms: number) => owners?.waitMs(this.#statements, queue, ms) ?? ms;
    // This read does not need the write lock, which the lease needs.
    const dueMs = await this.#read((statements) => {
      const dueMs = nextDueMs(statements, queue, clock.now());
      if (dueMs < Infinity) owners?.look();
      return waitMs(dueMs);
    });
    if (dueMs > 0) return { deliveries: [], nextDueMs: dueMs };
    const owner = owners?.number ?? await owners?.register() ?? 0;
    return await this.#connection.write(() => {
      if (this.#connection.closing) return { deliveries: [], nextDueMs: Infinity };
      const terms = { queue, max, visibilityMs, owner };
      const { deliveries, nextDueMs } = lease(this.#statements, terms, clock.now(), random);
      return { deliveries, nextDueMs: waitMs(nextDueMs) };
    });
  }

  async acknowledge(deliveries: readonly Delivery<string>[]): Promise<readonly boolean[]> {
    const { results, unblocked } = await this.#connection.write(() => {
      return this.#perform(acknowledge(this.#queue, deliveries, this.#now));
    });
    if (unblocked) this.#wake(this.#queue);
    return results;
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
      const dueAt = delayMs === 0 ? null : this.#now + delayMs;
      return this.#settle("nack", deliveries, dueAt, countsAttempt ? 0 : 1);
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
    const [removed, unblocked] = await this.#connection.write(() => {
      const now = this.#now;
      const { results: [removed = false], unblocked } = this.#perform(
        acknowledge(this.#queue, [delivery], now),
      );
      if (removed) this.#perform(store(this.#deadQueue, [letter], now));
      return [removed, unblocked];
    });
    this.#wake(this.#deadQueue);
    if (unblocked) this.#wake(this.#queue);
    return removed;
  }

  async checkpoint(delivery: Delivery<string>, checkpoint: string): Promise<boolean> {
    const [saved = false] = await this.#connection.write(() => {
      return this.#settle("checkpoint", [delivery], checkpoint);
    });
    return saved;
  }

  peek(max: number, skip = 0): Maybe<SqliteDelivery[]> {
    return this.#read((statements) => peek(statements, this.#queue, max, skip, this.#now));
  }

  count(): Maybe<number> {
    return this.#read((statements) => sizeOf(statements, this.#queue));
  }

  stats(): Maybe<EngineStats> {
    return this.#read((statements) => stats(statements, this.#queue, this.#now));
  }

  purge(): Promise<number> {
    return this.#connection.write(() => purge(this.#statements, this.#queue));
  }

  find(id: string): Maybe<SqliteDelivery | undefined> {
    return findById(this.#connection, this.#queue, id, this.#now);
  }

  async cancel(id: string): Promise<boolean> {
    const { found, unblocked } = await this.#cancelled.cancel(id);
    if (unblocked) this.#wake(this.#queue);
    return found;
  }

  async deliverNow(id: string): Promise<boolean> {
    const isVisible = await showById(this.#connection, this.#queue, id, this.#options.clock);
    if (isVisible) this.#wake(this.#queue);
    return isVisible;
  }

  onCancel(listener: (id: string) => void): () => void {
    return this.#cancelled.listen(listener);
  }

  pause(forMs: number): Promise<void> {
    return this.#control((control, now) => control.pause(forMs, now));
  }

  rateLimit(limit: RateLimit | undefined): Promise<void> {
    return this.#control((control) => control.limit(limit));
  }

  transaction(transaction: unknown): EngineTransaction<string> {
    const caller = callerTransaction(transaction, this.#connection.opened);
    // A synchronous transaction function has committed by then. After a later commit, the change of the file
    // wakes the receivers.
    const perform = <T>(change: Change<T>) => {
      void nextTurn().then(() => this.#wake(this.#queue));
      return caller.perform(change);
    };
    return {
      synchronous: caller.synchronous,
      send: (entries) => perform(this.#send(entries)),
      acknowledge: (deliveries) => perform(this.#acknowledge(deliveries)),
    };
  }

  queue(name: string): SqliteEngine {
    return new SqliteEngine(name, this.#connection, { ...this.#options, maxSize: Infinity });
  }

  queues(): Maybe<string[]> {
    return this.#read(queues);
  }

  async drop(): Promise<void> {
    await this.#connection.write(() => {
      for (const name of [this.#queue, this.#deadQueue]) drop(this.#statements, name);
    });
  }

  onWake(listener: () => void): () => void {
    return this.#connection.onChange(this.#queue, "messages", listener);
  }

  deadLetters(): SqliteEngine {
    return this.queue(this.#deadQueue);
  }

  offThread(): OffThreadPlan | undefined {
    if (this.#options.offThread !== true) return undefined;
    const { realPath: path, durability, sharedFile } = this.#connection;
    const options: ExtenderOptions = { path, queue: this.#queue, durability, sharedFile };
    return { engine: this.label, options };
  }

  close(): Promise<void> {
    return this.#connection.close(() => this.#options.owners?.close() ?? Promise.resolve());
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

  #read<T>(query: (statements: Statements) => T): Maybe<T> {
    return this.#connection.read(() => query(this.#statements));
  }

  #perform<T>(change: Change<T>): T {
    const statements = this.#statements;
    return perform(change, (name) => statements[name]);
  }

  *#send(entries: readonly Entry<string>[]): Change<boolean[]> {
    const now = this.#now;
    yield* checkRoom(this.#queue, entries, this.#options.maxSize, now);
    return yield* store(this.#queue, entries, now);
  }

  *#acknowledge(deliveries: readonly Delivery<string>[]): Change<readonly boolean[]> {
    return (yield* acknowledge(this.#queue, deliveries, this.#now)).results;
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

  async #control(change: (control: QueueControl, now: number) => void): Promise<void> {
    await this.#connection.write(() => {
      changeControl(this.#statements, this.#queue, this.#now, change);
    });
    this.#wake(this.#queue);
  }

  #wake(queue: string): void {
    if (!this.#connection.closing) wakeLocal(this.#connection.realPath, queue, "messages");
  }
}
