/**
 * The engine of example 14. It stores all messages in one JSON file, and reads and writes the file in every
 * call. It is slow and simple, and a crash loses nothing. Use it in one process only: two processes would
 * overwrite each other's changes.
 */

import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import type { Clock } from "../mod.ts";
import {
  BASIC_CAPABILITIES,
  type Capabilities,
  type Delivery,
  type Engine,
  type EngineStats,
  type Entry,
  FREE_RELEASES,
  freshnessOf,
  type MessageState,
  type Received,
  type StoredMessage,
} from "../src/engine.ts";

/** A message in the file. Its position in the list is its position in the queue. */
interface Row {
  readonly id: string;
  readonly body: string;
  /** The envelope. An engine stores it unchanged and does not read it. */
  readonly meta?: string | undefined;
  /** True when the sender chose the id: the mailbox has it once. */
  readonly dedup: boolean;
  readonly enqueuedAt: number;
  /** The end of its delay or of its lease. */
  visibleAt: number;
  /** Identifies the last delivery. It is valid until `visibleAt`. */
  receiptHandle: string;
  deliveryCount: number;
  releases: number;
  checkpoint?: string | undefined;
}

/** The queues of the file by name. Dead letters are in the same file, so that one write moves a message. */
type Queues = Record<string, Row[]>;

/** Stores and delivers. `EngineMailbox` checks arguments, waits, settles each delivery once and replies. */
export class FileEngine implements Engine<string> {
  // Turn on what the engine can do besides, and off what it cannot. The cases test every flag that is true.
  readonly capabilities: Capabilities = { ...BASIC_CAPABILITIES, longDelays: true };
  readonly #path: string;
  readonly #queue: string;
  readonly #clock: Clock;
  readonly #listeners = new Set<() => void>();
  #dead: FileEngine | undefined;

  constructor(path: string, queue: string, clock: Clock) {
    this.#path = path;
    this.#queue = queue;
    this.#clock = clock;
  }

  send(entries: readonly Entry<string>[]): boolean[] {
    const stored = this.#change((rows, now) => {
      const isFresh = freshnessOf(entries, (id) => rows.some((row) => row.dedup && row.id === id));
      rows.push(...entries.filter((_, i) => isFresh[i]).map((entry) => newRow(entry, now)));
      return isFresh;
    });
    this.#wake();
    return stored;
  }

  receive(max: number, visibilityMs: number): Received<string> {
    return this.#change((rows, now) => {
      const deliveries = rows.filter(({ visibleAt }) => visibleAt <= now).slice(0, max);
      for (const row of deliveries) {
        row.deliveryCount++;
        row.receiptHandle = crypto.randomUUID();
        row.visibleAt = now + visibilityMs;
      }
      const nextDueAt = Math.min(...rows.map(({ visibleAt }) => visibleAt));
      return { deliveries, nextDueMs: nextDueAt - now }; // Infinity when there are no rows
    });
  }

  acknowledge(deliveries: readonly Delivery<string>[]): boolean[] {
    return this.#settle(deliveries, (row, _, rows) => remove(rows, row));
  }

  extend(deliveries: readonly Delivery<string>[], visibilityMs: number): boolean[] {
    return this.#settle(deliveries, (row, now) => {
      row.visibleAt = Math.max(row.visibleAt, now + visibilityMs); // never shorter
    });
  }

  nack(
    deliveries: readonly Delivery<string>[],
    delayMs: number,
    countsAttempt: boolean,
  ): boolean[] {
    return this.#settle(deliveries, (row, now) => {
      row.receiptHandle = "";
      row.visibleAt = now + delayMs;
      if (!countsAttempt) row.deliveryCount--;
    });
  }

  release(deliveries: readonly Delivery<string>[]): boolean[] {
    return this.#settle(deliveries, (row, now) => {
      row.receiptHandle = "";
      row.visibleAt = now;
      if (row.releases++ < FREE_RELEASES) row.deliveryCount--;
    });
  }

  deadLetter(delivery: Delivery<string>, letter: Entry<string>): boolean {
    const [moved = false] = this.#settle([delivery], (row, now, rows, queues) => {
      remove(rows, row);
      (queues[`${this.#queue}.dead`] ??= []).push(newRow(letter, now));
    });
    this.deadLetters().#wake();
    return moved;
  }

  checkpoint(delivery: Delivery<string>, checkpoint: string): boolean {
    const [saved = false] = this.#settle([delivery], (row) => {
      row.checkpoint = checkpoint;
      row.releases = 0; // a message that advances may be released again
    });
    return saved;
  }

  peek(max: number, skip = 0): StoredMessage<string>[] {
    return this.#change((rows, now) => {
      return rows.slice(skip, skip + max).map((row) => ({ ...row, state: stateOf(row, now) }));
    });
  }

  count(): number {
    return this.#change((rows) => rows.length);
  }

  stats(): EngineStats {
    return this.#change((rows, now) => {
      const waiting = rows.filter((row) => stateOf(row, now) === "waiting");
      const inFlight = rows.filter((row) => stateOf(row, now) === "inFlight").length;
      const delayed = rows.length - waiting.length - inFlight;
      const oldest = Math.min(...waiting.map(({ enqueuedAt }) => enqueuedAt));
      const age = waiting.length === 0 ? {} : { oldestWaitingMs: now - oldest };
      return { waiting: waiting.length, delayed, inFlight, ...age };
    });
  }

  purge(): number {
    return this.#change((rows) => rows.splice(0).length);
  }

  onWake(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  deadLetters(): FileEngine {
    return this.#dead ??= new FileEngine(this.#path, `${this.#queue}.dead`, this.#clock);
  }

  // There is no connection to close.
  close(): void {}

  /** Changes the messages of active leases. Returns false for each stale delivery. */
  #settle(
    deliveries: readonly Delivery<string>[],
    settle: (row: Row, now: number, rows: Row[], queues: Queues) => void,
  ): boolean[] {
    const results = this.#change((rows, now, queues) =>
      deliveries.map(({ receiptHandle }) => {
        const row = rows.find((it) => it.receiptHandle === receiptHandle && it.visibleAt > now);
        if (row !== undefined) settle(row, now, rows, queues);
        return row !== undefined;
      })
    );
    this.#wake();
    return results;
  }

  /** Reads, changes and writes the file. Without an await in between, the call is atomic in this process. */
  #change<R>(change: (rows: Row[], now: number, queues: Queues) => R): R {
    const text = existsSync(this.#path) ? readFileSync(this.#path, "utf8") : "{}";
    const queues: Queues = JSON.parse(text);
    const result = change(queues[this.#queue] ??= [], this.#clock.now(), queues);
    const changed = JSON.stringify(queues);
    if (changed !== text) {
      writeFileSync(`${this.#path}.new`, changed);
      renameSync(`${this.#path}.new`, this.#path); // all changes, or none
    }
    return result;
  }

  #wake(): void {
    for (const listener of this.#listeners) listener();
  }
}

function newRow({ id, body, meta, dedup, delayMs, checkpoint }: Entry<string>, now: number): Row {
  const state = { receiptHandle: "", deliveryCount: 0, releases: 0, checkpoint };
  return { id, body, meta, dedup, enqueuedAt: now, visibleAt: now + delayMs, ...state };
}

/** A delay or a lease that has passed does not hide a message. */
function stateOf({ visibleAt, receiptHandle }: Row, now: number): MessageState {
  if (visibleAt <= now) return "waiting";
  return receiptHandle === "" ? "delayed" : "inFlight";
}

function remove(rows: Row[], row: Row): void {
  rows.splice(rows.indexOf(row), 1);
}
