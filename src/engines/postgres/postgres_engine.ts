import { settlesWithin } from "../../_promises.ts";
import { type Clock, nextTurn } from "../../clock.ts";
import type { Log } from "../../log.ts";
import {
  type Delivery,
  type Engine,
  type Entry,
  freshnessOf,
  type Pulled,
} from "../../mailbox/engine.ts";
import { isMailboxError, MailboxFullError } from "../../mailbox/errors.ts";
import { type Capabilities, FULL_CAPABILITIES } from "../../mailbox/mailbox.ts";
import { pollNowAndThen } from "../_fallback_poll.ts";
import { LostCalls } from "../_lost_calls.ts";
import type { SqlParameter, SqlRow } from "./client.ts";
import type { Database } from "./_database.ts";
import { PostgresDelivery, type Row } from "./_delivery.ts";
import { InsertBatcher } from "./_insert_batcher.ts";
import { Settlements } from "./_settlements.ts";
import { arrayLiteral, type Statements } from "./_statements.ts";

/** Options of {@linkcode PostgresEngine}. */
export interface PostgresEngineOptions {
  readonly maxSize: number;
  readonly pollIntervalMs: number;
  readonly callTimeoutMs: number;
  readonly clock: Clock;
  readonly log: Log;
}

/** The row that an insert returns. */
interface Inserted {
  /** For a bounded queue: its size before the insert, and how many messages were new. */
  readonly size?: number;
  readonly fresh?: number;
  /** The stored ids that senders chose, as JSON. */
  readonly ids: string | null;
}

/** The due row is locked by another worker: the receiver retries after this time. */
const LOCKED_RETRY_MS = 5;

/** One queue of a database. All times are by the server's clock. */
export class PostgresEngine implements Engine<string> {
  readonly capabilities: Capabilities = FULL_CAPABILITIES;
  readonly label = "PostgreSQL";
  readonly #queue: string;
  readonly #database: Database;
  readonly #options: PostgresEngineOptions;
  readonly #inserts: InsertBatcher;
  readonly #settlements: Settlements;
  readonly #pending = new Set<Promise<unknown>>();
  /** The nonces of pulls that failed: the server may have run them. */
  readonly #lost: LostCalls<string>;
  #closed = false;

  constructor(queue: string, database: Database, options: PostgresEngineOptions) {
    this.#queue = queue;
    this.#database = database;
    this.#options = options;
    this.#lost = new LostCalls(options.clock, options.callTimeoutMs);
    this.#inserts = new InsertBatcher(
      (entries) => this.#store(entries),
      (error) => isMailboxError(error, "MailboxFullError"),
    );
    this.#settlements = new Settlements((...call) => this.#call(...call));
  }

  async push(entries: readonly Entry<string>[]): Promise<readonly boolean[]> {
    const stored = await this.#inserts.push(entries);
    this.#database.wake(this.#queue);
    return stored;
  }

  async pull(max: number, visibilityMs: number): Promise<Pulled<string>> {
    if (this.#lost.nextLookMs === 0) await this.#releaseLost();
    let deliveries = await this.#take(max, visibilityMs, false);
    if (deliveries.length > 0) return { deliveries, nextDueMs: 0 };
    let nextDueMs = await this.#nextDueMs();
    if (nextDueMs <= 0) {
      await this.#call("surface", "receive", [this.#queue]);
      deliveries = await this.#take(max, visibilityMs, true);
      if (deliveries.length > 0) return { deliveries, nextDueMs: 0 };
      nextDueMs = Math.max(LOCKED_RETRY_MS, await this.#nextDueMs());
    }
    return { deliveries, nextDueMs: Math.min(nextDueMs, this.#lost.nextLookMs) };
  }

  acknowledge(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    return this.#settlements.run("remove", "acknowledge", deliveries);
  }

  extend(deliveries: readonly Delivery<string>[], visibilityMs: number): Promise<boolean[]> {
    return this.#settlements.run("extend", "extend", deliveries, `${visibilityMs}`);
  }

  async retry(
    deliveries: readonly Delivery<string>[],
    delayMs: number,
    countsAttempt: boolean,
  ): Promise<boolean[]> {
    const restored = countsAttempt ? "0" : "1";
    const results = await this.#settlements.run(
      "retry",
      "nack",
      deliveries,
      `${delayMs}`,
      restored,
    );
    this.#database.wake(this.#queue);
    return results;
  }

  async release(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    const results = await this.#settlements.run("release", "release", deliveries);
    this.#database.wake(this.#queue);
    return results;
  }

  async bury(delivery: Delivery<string>, deadLetter: string): Promise<boolean> {
    const [moved = false] = await this.#settlements.run(
      "bury",
      "dead-letter",
      [delivery],
      deadLetter,
    );
    this.#database.wake(this.#deadQueue);
    return moved;
  }

  async checkpoint(delivery: Delivery<string>, progress: string): Promise<boolean> {
    const [saved = false] = await this.#settlements.run(
      "checkpoint",
      "checkpoint",
      [delivery],
      progress,
    );
    return saved;
  }

  async peek(max: number): Promise<PostgresDelivery[]> {
    const rows = await this.#call("peek", "peek", [this.#queue, `${max}`]);
    return rows.map((row) => new PostgresDelivery(row as unknown as Row, ""));
  }

  async count(): Promise<number> {
    const [row] = await this.#call("count", "count", [this.#queue]);
    return Number(row!.count);
  }

  async purge(): Promise<number> {
    const [row] = await this.#call("purge", "purge", [this.#queue]);
    return Number(row!.count);
  }

  onWake(listener: () => void): () => void {
    if (this.#closed) return () => {};
    const { clock, pollIntervalMs } = this.#options;
    const stopListening = this.#database.wakes.add(this.#queue, listener);
    const stopPolling = pollNowAndThen(clock, pollIntervalMs, listener);
    return () => {
      stopListening();
      stopPolling();
    };
  }

  /** Shares the connections, which this engine closes for both. */
  deadLetters(): PostgresEngine {
    const options = { ...this.#options, maxSize: Infinity };
    return new DeadLetterEngine(this.#deadQueue, this.#database, options);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.settled();
    await this.#database.letGo();
  }

  /** Resolves when no call is pending, at the latest after `callTimeoutMs`: a server may be frozen. */
  async settled(): Promise<void> {
    const { callTimeoutMs, clock } = this.#options;
    const settle = async () => {
      do {
        await Promise.allSettled(this.#pending);
        await nextTurn(); // a caller that has just received messages releases them in this turn
      } while (this.#pending.size > 0);
    };
    await settlesWithin(settle(), callTimeoutMs, clock);
  }

  get #deadQueue(): string {
    return `${this.#queue}.dead`;
  }

  /** Returns for each entry whether it was stored. */
  async #store(entries: readonly Entry<string>[]): Promise<boolean[]> {
    const { maxSize } = this.#options;
    const parameters = [
      this.#queue,
      arrayLiteral(entries.map(({ id }) => id)),
      arrayLiteral(entries.map(({ dedup }) => dedup)),
      arrayLiteral(entries.map(({ body }) => body)),
      arrayLiteral(entries.map(({ delayMs }) => delayMs)),
      arrayLiteral(entries.map(({ replyTo }) => {
        return typeof replyTo === "object" ? replyTo.name : replyTo ?? null;
      })),
      arrayLiteral(entries.map(({ checkpoint = null }) => checkpoint)),
    ];
    const bounded = maxSize !== Infinity;
    const [row] =
      await (bounded
        ? this.#call("insertBounded", "send", [...parameters, `${maxSize}`])
        : this.#call("insert", "send", parameters));
    const { size = 0, fresh = 0, ids } = row as unknown as Inserted;
    if (!bounded || Number(size) + Number(fresh) <= maxSize) {
      const stored = new Set<string>(JSON.parse(ids ?? "[]"));
      return freshnessOf(entries, (id) => !stored.has(id));
    }
    throw new MailboxFullError(
      `Mailbox "${this.#queue}" is full: it holds ${size} of ${maxSize} messages and cannot take ` +
        `${fresh} more; receive some, or raise maxSize`,
    );
  }

  /** Leases ready messages. Unless `ignoreDue` is set, it takes none while a hidden message is due. */
  async #take(max: number, visibilityMs: number, ignoreDue: boolean): Promise<PostgresDelivery[]> {
    const nonce = `${Math.floor(Math.random() * Number.MAX_SAFE_INTEGER)}`;
    const open = (rows: readonly SqlRow[]) => {
      const found = rows.map((row) => new PostgresDelivery(row as unknown as Row, nonce));
      return found.sort((a, b) => Number(a.key) - Number(b.key)); // `returning` has no order
    };
    const parameters = [this.#queue, `${max}`, `${visibilityMs}`, nonce, `${ignoreDue}`];
    try {
      const late = (rows: readonly SqlRow[]) => this.#releaseLate(open(rows));
      return open(await this.#call("take", "receive", parameters, late));
    } catch (error) {
      this.#lost.add(nonce);
      throw error;
    }
  }

  async #releaseLate(deliveries: readonly PostgresDelivery[]): Promise<void> {
    if (deliveries.length === 0) return;
    try {
      await this.release(deliveries);
    } catch (error) {
      this.#options.log.warn(
        `could not release late messages of "${this.#queue}"; they reappear when their visibility ` +
          "timeout passes",
        { error },
      );
    }
  }

  async #releaseLost(): Promise<void> {
    await this.#lost.look(async (nonces) => {
      await this.#call("releaseLost", "release the messages of a lost pull", [
        this.#queue,
        arrayLiteral(nonces),
      ]);
    });
  }

  async #nextDueMs(): Promise<number> {
    const [row] = await this.#call("nextDue", "receive", [this.#queue]);
    const ms = row?.ms;
    return ms === null || ms === undefined ? Infinity : Number(ms);
  }

  async #call(
    statement: keyof Statements,
    action: string,
    parameters: SqlParameter[],
    onLate?: (rows: readonly SqlRow[]) => void,
  ): Promise<readonly SqlRow[]> {
    const { calls, statements } = this.#database;
    const call = calls.call(action, statements[statement], parameters, onLate);
    this.#pending.add(call);
    try {
      return await call;
    } finally {
      this.#pending.delete(call);
    }
  }
}

class DeadLetterEngine extends PostgresEngine {
  override close(): Promise<void> {
    return this.settled();
  }
}
