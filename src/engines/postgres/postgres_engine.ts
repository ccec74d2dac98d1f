import type { Clock } from "../../clock.ts";
import type { Log } from "../../log.ts";
import {
  type Delivery,
  type Engine,
  type EngineStats,
  type Entry,
  freshnessOf,
  type OffThreadPlan,
  type Received,
} from "../../mailbox/engine.ts";
import { fullError, isMailboxError } from "../../mailbox/errors.ts";
import { BASIC_CAPABILITIES, type Capabilities } from "../../mailbox/mailbox.ts";
import type { Random } from "../../random.ts";
import { LostCalls, PendingCalls } from "../_kit/calls.ts";
import { wakeUps } from "../_kit/wake_ups.ts";
import type { SqlParameter, SqlRow } from "./client.ts";
import type { PostgresLink } from "./postgres_link.ts";
import { SendBatcher } from "./_send_batcher.ts";
import { PostgresDelivery, type Row, Settlements } from "./_settlements.ts";
import { arrayLiteral, type Statements } from "./_statements.ts";

/** Options of {@linkcode PostgresEngine}. */
export interface PostgresEngineOptions {
  readonly maxSize: number;
  readonly pollIntervalMs: number;
  readonly callTimeoutMs: number;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** The URL and schema for another thread; undefined for a client of the caller. */
  readonly offThread?: Pick<ExtenderOptions, "url" | "schema"> | undefined;
}

/** What another thread needs to extend leases. It is copied to that thread. */
export interface ExtenderOptions {
  readonly url: string;
  readonly schema: string;
  readonly queue: string;
  readonly callTimeoutMs: number;
}

/** The row that a send returns. */
interface Sent {
  /** For a bounded queue: its size before the send, and how many messages were new. */
  readonly size?: number;
  readonly fresh?: number;
  /** The stored ids that senders chose, as JSON. */
  readonly ids: string | null;
}

/** The due row is locked by another worker: the receiver retries after this time. */
const LOCKED_RETRY_MS = 5;

/** One queue of a database. All times are by the server's clock. */
export class PostgresEngine implements Engine<string> {
  readonly capabilities: Capabilities = BASIC_CAPABILITIES;
  readonly label = "PostgreSQL";
  readonly #queue: string;
  readonly #link: PostgresLink;
  readonly #options: PostgresEngineOptions;
  readonly #batcher: SendBatcher;
  readonly #settlements: Settlements;
  readonly #pending: PendingCalls;
  /** The nonces of receives that failed: the server may have run them. */
  readonly #lost: LostCalls<string>;
  #closed = false;

  /** The dead letters share `pending` with their mailbox, whose `close` waits for the calls of both. */
  constructor(
    queue: string,
    link: PostgresLink,
    options: PostgresEngineOptions,
    pending: PendingCalls = new PendingCalls(),
  ) {
    this.#queue = queue;
    this.#link = link;
    this.#options = options;
    this.#pending = pending;
    this.#lost = new LostCalls(options.clock, options.callTimeoutMs);
    this.#batcher = new SendBatcher(
      (entries) => this.#store(entries),
      (error) => isMailboxError(error, "MailboxFullError"),
    );
    this.#settlements = new Settlements((...call) => this.#call(...call));
  }

  async send(entries: readonly Entry<string>[]): Promise<readonly boolean[]> {
    const stored = await this.#batcher.send(entries);
    this.#link.wake(this.#queue);
    return stored;
  }

  async receive(max: number, visibilityMs: number): Promise<Received<string>> {
    if (this.#lost.nextLookMs === 0) await this.#releaseLost();
    let deliveries = await this.#receiveReady(max, visibilityMs, false);
    if (deliveries.length > 0) return { deliveries, nextDueMs: 0 };
    let nextDueMs = await this.#nextDueMs();
    if (nextDueMs <= 0) {
      await this.#call("makeDueReady", "receive", [this.#queue]);
      deliveries = await this.#receiveReady(max, visibilityMs, true);
      if (deliveries.length > 0) return { deliveries, nextDueMs: 0 };
      nextDueMs = Math.max(LOCKED_RETRY_MS, await this.#nextDueMs());
    }
    return { deliveries, nextDueMs: Math.min(nextDueMs, this.#lost.nextLookMs) };
  }

  acknowledge(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    return this.#settlements.run("acknowledge", deliveries);
  }

  extend(deliveries: readonly Delivery<string>[], visibilityMs: number): Promise<boolean[]> {
    return this.#settlements.run("extend", deliveries, `${visibilityMs}`);
  }

  async nack(
    deliveries: readonly Delivery<string>[],
    delayMs: number,
    countsAttempt: boolean,
  ): Promise<boolean[]> {
    const restored = countsAttempt ? "0" : "1";
    const results = await this.#settlements.run("nack", deliveries, `${delayMs}`, restored);
    this.#link.wake(this.#queue);
    return results;
  }

  async release(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    const results = await this.#settlements.run("release", deliveries);
    this.#link.wake(this.#queue);
    return results;
  }

  async deadLetter(delivery: Delivery<string>, letter: Entry<string>): Promise<boolean> {
    const { id, body, meta = null } = letter;
    const [moved = false] = await this.#settlements.run("deadLetter", [delivery], id, body, meta);
    this.#link.wake(this.#deadQueue);
    return moved;
  }

  async checkpoint(delivery: Delivery<string>, checkpoint: string): Promise<boolean> {
    const [saved = false] = await this.#settlements.run("checkpoint", [delivery], checkpoint);
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

  async stats(): Promise<EngineStats> {
    return { waiting: await this.count() };
  }

  async purge(): Promise<number> {
    const [row] = await this.#call("purge", "purge", [this.#queue]);
    return Number(row!.count);
  }

  onWake(listener: () => void): () => void {
    if (this.#closed) return () => {};
    const { clock, pollIntervalMs } = this.#options;
    const listen = (wake: () => void) => this.#link.wakeUps.add(this.#queue, wake);
    return wakeUps(listen, clock, pollIntervalMs, listener);
  }

  deadLetters(): PostgresEngine {
    const options = { ...this.#options, maxSize: Infinity };
    return new PostgresEngine(this.#deadQueue, this.#link, options, this.#pending);
  }

  offThread(): OffThreadPlan | undefined {
    const { offThread, callTimeoutMs } = this.#options;
    if (offThread === undefined) return undefined;
    const options: ExtenderOptions = { ...offThread, queue: this.#queue, callTimeoutMs };
    return { engine: this.label, options };
  }

  async close(): Promise<void> {
    this.#closed = true;
    const { callTimeoutMs, clock } = this.#options;
    await this.#pending.settled(callTimeoutMs, clock);
    await this.#link.letGo();
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
      arrayLiteral(entries.map(({ meta = null }) => meta)),
      arrayLiteral(entries.map(({ checkpoint = null }) => checkpoint)),
    ];
    const bounded = maxSize !== Infinity;
    const [row] =
      await (bounded
        ? this.#call("sendBounded", "send", [...parameters, `${maxSize}`])
        : this.#call("send", "send", parameters));
    const { size = 0, fresh = 0, ids } = row as unknown as Sent;
    if (!bounded || Number(size) + Number(fresh) <= maxSize) {
      const stored = new Set<string>(JSON.parse(ids ?? "[]"));
      return freshnessOf(entries, (id) => !stored.has(id));
    }
    throw fullError(this.#queue, size, maxSize, fresh);
  }

  /** Leases ready messages. Unless `ignoreDue` is set, it leases none while a hidden message is due. */
  async #receiveReady(
    max: number,
    visibilityMs: number,
    ignoreDue: boolean,
  ): Promise<PostgresDelivery[]> {
    const nonce = `${Math.floor(this.#options.random.number() * Number.MAX_SAFE_INTEGER)}`;
    const open = (rows: readonly SqlRow[]) => {
      const found = rows.map((row) => new PostgresDelivery(row as unknown as Row, nonce));
      return found.sort((a, b) => Number(a.key) - Number(b.key)); // `returning` has no order
    };
    const parameters = [this.#queue, `${max}`, `${visibilityMs}`, nonce, `${ignoreDue}`];
    try {
      const late = (rows: readonly SqlRow[]) => this.#releaseLate(open(rows));
      return open(await this.#call("receive", "receive", parameters, late));
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
        "could not release late messages; they reappear when their visibility timeout passes",
        { mailbox: this.#queue, error },
      );
    }
  }

  async #releaseLost(): Promise<void> {
    await this.#lost.look(async (nonces) => {
      await this.#call("releaseLost", "release the messages of a lost receive", [
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
    const { calls, statements } = this.#link;
    return await this.#pending.track(
      calls.call(action, statements[statement], parameters, onLate),
    );
  }
}
