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
  type Received,
} from "../../mailbox/engine.ts";
import { type Capabilities, FULL_CAPABILITIES } from "../../mailbox/mailbox.ts";
import type { Random } from "../../random.ts";
import { CancelledMessages } from "./_cancelled.ts";
import { acknowledge, type Change, checkRoom, perform, store } from "./_changes.ts";
import type { Connection } from "./_connection.ts";
import type { SqliteValue } from "./drivers.ts";
import type { Durability } from "./_file.ts";
import { findById } from "./_lookup.ts";
import { peek, queueRow, queues, stats } from "./_queries.ts";
import { lease, nextDueMs } from "./_receive.ts";
import { SqliteDelivery, type Statements, type StoredRow } from "./_statements.ts";
import { callerTransaction } from "./_transaction.ts";
import { addLocal, wakeLocal } from "./_wake_ups.ts";

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
  readonly sharedFile?: boolean;
}

/** The statements that need a valid receipt handle. */
type Settlement = "extend" | "nack" | "release" | "checkpoint";

/**
 * One queue of a file.
 *
 * Due times are by the wall clock of the machine, which all its processes share. When the clock is set,
 * leases and delays become longer or shorter by the difference; receipt handles do not depend on it.
 */
export class SqliteEngine implements Engine<string> {
  readonly capabilities: Capabilities = {
    ...FULL_CAPABILITIES,
    leaseExpiries: false,
    rateLimit: false,
    ownerDetection: false,
  };
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

  async send(entries: readonly Entry<string>[]): Promise<boolean[]> {
    const stored = await this.#connection.write(() => this.#perform(this.#send(entries)));
    this.#wake(this.#queue);
    return stored;
  }

  async receive(max: number, visibilityMs: number): Promise<Received<string>> {
    const { clock, random } = this.#options;
    // This read does not need the write lock, which the lease needs.
    const dueMs = await this.#read((it) => nextDueMs(it, this.#queue, clock.now()));
    if (dueMs > 0) return { deliveries: [], nextDueMs: dueMs };
    return await this.#connection.write(() => {
      if (this.#connection.closing) return { deliveries: [], nextDueMs: Infinity };
      return lease(this.#statements, this.#queue, max, visibilityMs, clock.now(), random);
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

  peek(max: number): Maybe<SqliteDelivery[]> {
    return this.#read((statements) => peek(statements, this.#queue, max, this.#now));
  }

  count(): Maybe<number> {
    return this.#read((statements) => queueRow(statements, this.#queue).size);
  }

  stats(): Maybe<EngineStats> {
    return this.#read((statements) => stats(statements, this.#queue, this.#now));
  }

  purge(): Promise<number> {
    return this.#connection.write(() => {
      const { purge, forgetAll, resetCount } = this.#statements;
      const count = Number(purge.run(this.#queue).changes);
      forgetAll.run(this.#queue);
      resetCount.run(this.#queue);
      return count;
    });
  }

  find(id: string): Maybe<SqliteDelivery | undefined> {
    const found = findById(this.#connection, this.#queue, id);
    const stored = (row: StoredRow | undefined) => row && SqliteDelivery.stored(row, this.#now);
    return found instanceof Promise ? found.then(stored) : stored(found);
  }

  async cancel(id: string): Promise<boolean> {
    const { found, unblocked } = await this.#cancelled.cancel(id);
    if (unblocked) this.#wake(this.#queue);
    return found;
  }

  onCancel(listener: (id: string) => void): () => void {
    return this.#cancelled.listen(listener);
  }

  async pause(forMs: number): Promise<void> {
    const paused = forMs > 0;
    await this.#connection.write(() => {
      this.#statements.pause.run(this.#queue, paused ? 1 : 0);
    });
    this.#wake(this.#queue);
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
      const { purge, forgetAll, dropCancelled, dropQueue } = this.#statements;
      for (const name of [this.#queue, this.#deadQueue]) {
        for (const drop of [purge, forgetAll, dropCancelled, dropQueue]) drop.run(name);
      }
    });
  }

  onWake(listener: () => void): () => void {
    if (this.#connection.closing) return () => {};
    const removeLocal = addLocal(this.#connection.realPath, this.#queue, "messages", listener);
    const stopWatching = this.#connection.onForeignChange(listener);
    return () => {
      removeLocal();
      stopWatching();
    };
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

  #wake(queue: string): void {
    if (!this.#connection.closing) wakeLocal(this.#connection.realPath, queue, "messages");
  }
}
