import type { Clock } from "../../clock.ts";
import type { Log } from "../../log.ts";
import type {
  Delivery,
  Engine,
  EngineStats,
  EngineTransaction,
  Entry,
  Handover,
  OffThreadPlan,
  RateLimit,
  Received,
} from "../../mailbox/engine.ts";
import type { Capabilities } from "../../mailbox/mailbox.ts";
import type { Random } from "../../random.ts";
import { PendingCalls } from "../_kit/calls.ts";
import { wakeUps } from "../_kit/wake_ups.ts";
import type { SqlParameter, SqlRow } from "./client.ts";
import { Handovers } from "./_handovers.ts";
import { statsOf } from "./_control_statements.ts";
import { Lookup } from "./_lookup.ts";
import type { PostgresLink } from "./postgres_link.ts";
import { type Call as ReceiveCall, Receives } from "./_receives.ts";
import { SendBatcher } from "./_send_batcher.ts";
import { OldIds, sendOf, storedOf } from "./_sends.ts";
import { type Call, keysOf, type PostgresDelivery, Settlements } from "./_settlements.ts";
import { arrayLiteral, type Statements } from "./_statements.ts";
import { postgresTransaction } from "./_transactions.ts";

/** Options of {@linkcode PostgresEngine}. */
export interface PostgresEngineOptions {
  readonly maxSize: number;
  readonly pollIntervalMs: number;
  readonly callTimeoutMs: number;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /**
   * True when its first receive registers this process as an owner of leases, and its receives look for owners
   * that have died. @default {false}
   */
  readonly registers?: boolean | undefined;
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

/** One queue of a database. All times are by the server's clock. */
export class PostgresEngine implements Engine<string> {
  readonly label = "PostgreSQL";
  readonly #queue: string;
  readonly #link: PostgresLink;
  readonly #options: PostgresEngineOptions;
  readonly #batcher: SendBatcher;
  readonly #settlements: Settlements;
  readonly #pending: PendingCalls;
  readonly #receives: Receives;
  readonly #handovers: Handovers;
  readonly #oldIds: OldIds;
  readonly #lookup: Lookup;
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
    this.#batcher = new SendBatcher((entries) => this.#store(entries));
    this.#oldIds = new OldIds((limit) => {
      this.#call("forgetIds", "delete old ids", [`${limit}`]).catch((error) => {
        options.log.debug("old ids could not be deleted", { mailbox: queue, error });
      });
    });
    const plainCall = (...call: Parameters<ReceiveCall>) => this.#call(...call);
    const release = (deliveries: readonly Delivery<string>[]) => this.release(deliveries);
    this.#handovers = new Handovers(queue, options, link, plainCall, release);
    const { owners } = link;
    this.#receives = new Receives(queue, options, owners, this.#handovers, plainCall, release);
    const call: Call = async (...call) => this.#wakeNext(await this.#call(...call));
    this.#settlements = new Settlements(call);
    this.#lookup = new Lookup(queue, link, call);
  }

  get capabilities(): Capabilities {
    return this.#link.owners.capabilities;
  }

  async send(entries: readonly Entry<string>[]): Promise<readonly boolean[]> {
    return await this.#batcher.send(entries);
  }

  receive(max: number, visibilityMs: number, waits = false): Promise<Received<string>> {
    return this.#receives.receive(max, visibilityMs, waits);
  }

  acknowledge(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    const keys = keysOf(deliveries as readonly PostgresDelivery[]);
    if (keys.length === 0) return this.#settlements.run("acknowledge", deliveries);
    const parameters = [this.#queue, arrayLiteral(keys)];
    return this.#settlements.run("acknowledgeKeyed", deliveries, ...parameters);
  }

  extend(deliveries: readonly Delivery<string>[], visibilityMs: number): Promise<boolean[]> {
    return this.#settlements.extend(deliveries as readonly PostgresDelivery[], visibilityMs);
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
    const keys = keysOf([delivery as PostgresDelivery]);
    const line = [this.#queue, arrayLiteral(keys)];
    const [moved = false] = keys.length === 0
      ? await this.#settlements.run("deadLetter", [delivery], id, body, meta)
      : await this.#settlements.run("deadLetterKeyed", [delivery], ...line, id, body, meta);
    this.#link.wake(this.#deadQueue);
    return moved;
  }

  async checkpoint(delivery: Delivery<string>, checkpoint: string): Promise<boolean> {
    const [saved = false] = await this.#settlements.run("checkpoint", [delivery], checkpoint);
    return saved;
  }

  peek(max: number, skip = 0): Promise<PostgresDelivery[]> {
    return this.#lookup.peek(max, skip);
  }

  async count(): Promise<number> {
    const [row] = await this.#call("count", "count", [this.#queue]);
    return Number(row!.count);
  }

  async stats(): Promise<EngineStats> {
    const [row] = await this.#call("stats", "count", [this.#queue]);
    return statsOf(row!);
  }

  async purge(): Promise<number> {
    const [row] = await this.#call("purge", "purge", [this.#queue]);
    // If this fails, the next receive does it.
    if (row!.joins === true) await this.#call("joinKeys", "purge", [this.#queue]).catch(() => {});
    return Number(row!.count);
  }

  find(id: string): Promise<PostgresDelivery | undefined> {
    return this.#lookup.find(id);
  }

  cancel(id: string): Promise<boolean> {
    return this.#lookup.cancel(id);
  }

  deliverNow(id: string): Promise<boolean> {
    return this.#lookup.deliverNow(id);
  }

  onCancel(listener: (id: string) => void): () => void {
    if (this.#closed) return () => {};
    return this.#link.wakeUps.onCancel(this.#queue, listener);
  }

  async pause(forMs: number): Promise<void> {
    if (forMs > 0) return void await this.#call("pause", "pause", [this.#queue, `${forMs}`]);
    await this.#call("resume", "resume", [this.#queue]);
    this.#link.wake(this.#queue);
  }

  async rateLimit(limit: RateLimit | undefined): Promise<void> {
    const parameters = limit === undefined ? [] : [`${limit.max}`, `${limit.perMs}`];
    const statement = limit === undefined ? "unlimit" : "limit";
    await this.#call(statement, "set the rate limit", [this.#queue, ...parameters]);
    this.#link.wake(this.#queue);
  }

  transaction(transaction: unknown): EngineTransaction<string> {
    const { statements, channel } = this.#link;
    return postgresTransaction(transaction, {
      queue: this.#queue,
      maxSize: this.#options.maxSize,
      statements,
      channel,
      onSend: (entries) => this.#oldIds.onSend(entries),
    });
  }

  onWake(listener: (handover?: Handover<string>) => void): () => Promise<void> {
    if (this.#closed) return async () => {};
    const { clock, pollIntervalMs } = this.#options;
    const listen = (wake: () => void) => this.#link.wakeUps.add(this.#queue, wake);
    const unlisten = this.#handovers.listen(listener);
    const stopWaking = wakeUps(listen, clock, pollIntervalMs, () => listener());
    return async () => {
      stopWaking();
      await unlisten();
    };
  }

  deadLetters(): PostgresEngine {
    return this.queue(this.#deadQueue);
  }

  queue(name: string): PostgresEngine {
    const options = { ...this.#options, maxSize: Infinity, registers: false };
    return new PostgresEngine(name, this.#link, options, this.#pending);
  }

  async queues(): Promise<string[]> {
    const rows = await this.#call("queues", "list the queues", []);
    return rows.map(({ name }) => String(name));
  }

  async drop(): Promise<void> {
    await this.#call("drop", "delete the queue", [this.#queue]);
  }

  offThread(): OffThreadPlan | undefined {
    const { offThread, callTimeoutMs } = this.#options;
    if (offThread === undefined) return undefined;
    const options: ExtenderOptions = { ...offThread, queue: this.#queue, callTimeoutMs };
    return { engine: this.label, options };
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#handovers.close();
    this.#receives.close();
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
    const [statement, parameters] = sendOf(this.#queue, entries, maxSize);
    let rows = maxSize === Infinity
      ? await this.#handovers.trySend(entries, parameters)
      : undefined;
    if (rows === undefined) {
      rows = await this.#call(statement, "send", parameters);
      this.#link.wake(this.#queue);
    }
    this.#oldIds.onSend(entries);
    return storedOf(this.#queue, entries, maxSize, rows);
  }

  /** Wakes receivers when a call has unblocked messages. */
  #wakeNext(rows: readonly SqlRow[]): readonly SqlRow[] {
    if (Number(rows[0]?.advanced ?? 0) > 0) this.#link.wake(this.#queue);
    return rows;
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
