import type { Clock } from "../../clock.ts";
import {
  type Delivery,
  type Engine,
  type Entry,
  FREE_RELEASES,
  freshnessOf,
  type Maybe,
  type Pulled,
} from "../../mailbox/engine.ts";
import { MailboxFullError } from "../../mailbox/errors.ts";
import { type Capabilities, FULL_CAPABILITIES } from "../../mailbox/mailbox.ts";
import type { Connection } from "./_connection.ts";
import type { SqliteValue } from "./database.ts";
import { type Row, SqliteDelivery } from "./_delivery.ts";
import type { Statements } from "./_statements.ts";

/**
 * How many due messages one pull makes ready. Only when more fall due between two pulls, some may be
 * delivered before an older one.
 */
const SURFACE_LIMIT = 10_000;

/** The statements that need a valid receipt. */
type Settlement = "remove" | "extend" | "retry" | "release" | "checkpoint";

/**
 * The waiting receivers of this process, by file and queue. They wake receivers without a poll, across
 * mailboxes on the same file. An entry exists only while a receiver waits.
 */
const waiting = new Map<string, Set<() => void>>();

/**
 * One queue of a file.
 *
 * Due times are by the wall clock of the machine, which all its processes share. When the clock is set,
 * leases and delays become longer or shorter by the difference; receipts do not depend on it.
 */
export class SqliteEngine implements Engine<string> {
  readonly capabilities: Capabilities = FULL_CAPABILITIES;
  readonly label = "SQLite";
  readonly #queue: string;
  readonly #connection: Connection;
  readonly #clock: Clock;
  readonly #maxSize: number;

  constructor(queue: string, connection: Connection, clock: Clock, maxSize: number) {
    this.#queue = queue;
    this.#connection = connection;
    this.#clock = clock;
    this.#maxSize = maxSize;
  }

  async push(entries: readonly Entry<string>[]): Promise<boolean[]> {
    const stored = await this.#connection.write(() => {
      if (this.#maxSize !== Infinity) this.#checkRoom(entries);
      return this.#insert(this.#queue, entries);
    });
    this.#wake(this.#queue);
    return stored;
  }

  async pull(max: number, visibilityMs: number): Promise<Pulled<string>> {
    // This read does not need the write lock, which the lease needs.
    const nextDueMs = await this.#connection.read(() => this.#nextDueMs());
    if (nextDueMs > 0) return { deliveries: [], nextDueMs };
    return await this.#connection.write(() => this.#lease(max, visibilityMs));
  }

  acknowledge(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    return this.#connection.write(() => {
      const results = this.#settle("remove", deliveries);
      this.#resize(this.#queue, -results.filter(Boolean).length);
      return results;
    });
  }

  extend(deliveries: readonly Delivery<string>[], visibilityMs: number): Promise<boolean[]> {
    return this.#connection.write(() => {
      return this.#settle("extend", deliveries, this.#dueAt(visibilityMs));
    });
  }

  async retry(
    deliveries: readonly Delivery<string>[],
    delayMs: number,
    countsAttempt: boolean,
  ): Promise<boolean[]> {
    const results = await this.#connection.write(() => {
      const dueAt = delayMs === 0 ? 0 : this.#dueAt(delayMs);
      return this.#settle("retry", deliveries, dueAt, countsAttempt ? 0 : 1);
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

  async bury(delivery: Delivery<string>, deadLetter: string): Promise<boolean> {
    const { id, replyTo } = delivery;
    const moved = await this.#connection.write(() => {
      const [removed = false] = this.#settle("remove", [delivery]);
      if (!removed) return false;
      this.#resize(this.#queue, -1);
      this.#insert(this.#deadQueue, [
        { id, body: deadLetter, delayMs: 0, replyTo, dedup: false },
      ]);
      return true;
    });
    this.#wake(this.#deadQueue);
    return moved;
  }

  async checkpoint(delivery: Delivery<string>, progress: string): Promise<boolean> {
    const [saved = false] = await this.#connection.write(() => {
      return this.#settle("checkpoint", [delivery], progress);
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
    return this.#connection.read(() => this.#size());
  }

  purge(): Promise<number> {
    return this.#connection.write(() => {
      const { purge, empty } = this.#statements;
      const count = Number(purge.run(this.#queue).changes);
      empty.run(this.#queue);
      return count;
    });
  }

  onWake(listener: () => void): () => void {
    if (this.#connection.closing) return () => {};
    const stopListening = listen(waitKey(this.#connection.realPath, this.#queue), listener);
    const stopWatching = this.#connection.onForeignChange(listener);
    return () => {
      stopListening();
      stopWatching();
    };
  }

  /** Shares the connection, which this engine closes for both. */
  deadLetters(): SqliteEngine {
    return new DeadLetterEngine(this.#deadQueue, this.#connection, this.#clock, Infinity);
  }

  close(): Maybe<void> {
    return this.#connection.close();
  }

  get #statements(): Statements {
    return this.#connection.opened.statements;
  }

  get #deadQueue(): string {
    return `${this.#queue}.dead`;
  }

  #dueAt(ms: number): number {
    return this.#clock.now() + ms;
  }

  #nextDueMs(): number {
    const { due_at } = this.#statements.firstDue.get(this.#queue) as { due_at: number | null };
    return due_at === null ? Infinity : Math.max(0, due_at - this.#clock.now());
  }

  #lease(max: number, visibilityMs: number): Pulled<string> {
    if (this.#connection.closing) return { deliveries: [], nextDueMs: Infinity };
    const { isAnyDue, surface, front, lease } = this.#statements;
    const now = this.#clock.now();
    // Usually none is due, and this read is cheaper than an update of no rows.
    if (isAnyDue.get(this.#queue, now)) surface.run(this.#queue, now, SURFACE_LIMIT);
    const rows = front.all(this.#queue, max) as Row[];
    const last = rows.at(-1);
    if (last === undefined) return { deliveries: [], nextDueMs: this.#nextDueMs() };
    const nonce = Math.floor(Math.random() * Number.MAX_SAFE_INTEGER);
    lease.run(now + visibilityMs, nonce, this.#queue, last.seq);
    return { deliveries: rows.map((row) => new SqliteDelivery(row, nonce)), nextDueMs: 0 };
  }

  /** Returns for each delivery whether its receipt was valid. */
  #settle(
    settlement: Settlement,
    deliveries: readonly Delivery<string>[],
    ...values: SqliteValue[]
  ): boolean[] {
    const statement = this.#statements[settlement];
    const now = this.#clock.now();
    return (deliveries as readonly SqliteDelivery[]).map(({ seq, nonce }) => {
      return Number(statement.run(...values, seq, nonce, now).changes) > 0;
    });
  }

  /** Returns for each entry whether it was stored. */
  #insert(queue: string, entries: readonly Entry<string>[]): boolean[] {
    const { insert } = this.#statements;
    const now = Math.floor(this.#clock.now());
    const stored = entries.map(({ id, body, delayMs, replyTo, dedup, checkpoint = null }) => {
      const dueAt = delayMs === 0 ? 0 : this.#dueAt(delayMs);
      const address = typeof replyTo === "object" ? replyTo.name : replyTo ?? null;
      const values = [queue, dueAt, dedup ? 1 : 0, id, now, address, checkpoint, body];
      return Number(insert.run(...values).changes) > 0;
    });
    this.#resize(queue, stored.filter(Boolean).length);
    return stored;
  }

  #checkRoom(entries: readonly Entry<string>[]): void {
    const { isThere } = this.#statements;
    const isFresh = freshnessOf(entries, (id) => Boolean(isThere.get(this.#queue, id)));
    const fresh = isFresh.filter(Boolean);
    const size = this.#size();
    if (size + fresh.length <= this.#maxSize) return;
    throw new MailboxFullError(
      `Mailbox "${this.#queue}" is full: it holds ${size} of ${this.#maxSize} messages and cannot ` +
        `take ${fresh.length} more; receive some, or raise maxSize`,
    );
  }

  #size(): number {
    const row = this.#statements.size.get(this.#queue) as { size: number } | null | undefined;
    return row?.size ?? 0;
  }

  #resize(queue: string, by: number): void {
    if (by !== 0) this.#statements.resize.run(queue, by);
  }

  #wake(queue: string): void {
    if (this.#connection.closing) return;
    const key = waitKey(this.#connection.realPath, queue);
    for (const listener of waiting.get(key) ?? []) listener();
  }
}

/** Leaves the shared connection open: the engine of the mailbox closes it. */
class DeadLetterEngine extends SqliteEngine {
  override close(): void {}
}

function waitKey(file: string, queue: string): string {
  return `${file}\n${queue}`;
}

/** Adds a waiting receiver. Returns a function that removes it. */
function listen(key: string, listener: () => void): () => void {
  const listeners = waiting.get(key) ?? new Set();
  waiting.set(key, listeners);
  const own = () => listener();
  listeners.add(own);
  return () => {
    listeners.delete(own);
    if (listeners.size === 0 && waiting.get(key) === listeners) waiting.delete(key);
  };
}
