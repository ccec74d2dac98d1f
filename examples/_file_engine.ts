/**
 * The engine of example 14. All messages stand in one JSON file, which is read and written for every call:
 * slow, simple, and safe from a crash at any moment. It is for one process, since two would overwrite what
 * the other has written.
 */

import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { type Clock, type Pulled } from "../mod.ts";
import {
  type Capabilities,
  type Delivery,
  type Engine,
  type Entry,
  FULL_CAPABILITIES,
} from "../src/engine.ts";

/** A message as it stands in the file. Its place in the list is its place in line. */
interface Row {
  readonly id: string;
  readonly body: string;
  /** The sender chose the id: it must not be there twice. */
  readonly dedup: boolean;
  readonly replyTo?: string | undefined;
  readonly enqueuedAt: number;
  /** The end of its delay, or of its lease. */
  visibleAt: number;
  /** That of the one delivery that has a say. */
  receipt: string;
  deliveryCount: number;
  releases: number;
  checkpoint?: string | undefined;
}

/** The queues of the file by name. Dead letters are beside, so that burying is one write. */
type Queues = Record<string, Row[]>;

/** Stores and hands over. Waiting, checks, replies and settling once are done by `EngineMailbox`. */
export class FileEngine implements Engine<string> {
  // Each flag is a promise that the cases ask for. What an engine cannot do is false here.
  readonly capabilities: Capabilities = FULL_CAPABILITIES;
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

  push(entries: readonly Entry<string>[]): boolean[] {
    const stored = this.#change((rows, now) =>
      entries.map(({ id, body, delayMs, replyTo, dedup, checkpoint }) => {
        if (dedup && rows.some((row) => row.dedup && row.id === id)) return false;
        const address = typeof replyTo === "object" ? replyTo.name : replyTo;
        const state = { visibleAt: now + delayMs, receipt: "", deliveryCount: 0, releases: 0 };
        rows.push({ id, body, dedup, replyTo: address, enqueuedAt: now, checkpoint, ...state });
        return true;
      })
    );
    this.#wake();
    return stored;
  }

  pull(max: number, visibilityMs: number): Pulled<string> {
    return this.#change((rows, now) => {
      const deliveries = rows.filter(({ visibleAt }) => visibleAt <= now).slice(0, max);
      for (const row of deliveries) {
        row.deliveryCount++;
        row.receipt = crypto.randomUUID();
        row.visibleAt = now + visibilityMs;
      }
      const nextDueAt = Math.min(...rows.map(({ visibleAt }) => visibleAt));
      return { deliveries, nextDueMs: nextDueAt - now }; // Infinity when there are no rows
    });
  }

  acknowledge(deliveries: readonly Delivery<string>[]): boolean[] {
    return this.#settle(deliveries, (row, _, rows) => void rows.splice(rows.indexOf(row), 1));
  }

  extend(deliveries: readonly Delivery<string>[], visibilityMs: number): boolean[] {
    return this.#settle(deliveries, (row, now) => {
      row.visibleAt = Math.max(row.visibleAt, now + visibilityMs); // never shorter
    });
  }

  retry(
    deliveries: readonly Delivery<string>[],
    delayMs: number,
    countsAttempt: boolean,
  ): boolean[] {
    return this.#settle(deliveries, (row, now) => {
      row.receipt = "";
      row.visibleAt = now + delayMs;
      if (!countsAttempt) row.deliveryCount--;
    });
  }

  release(deliveries: readonly Delivery<string>[]): boolean[] {
    return this.#settle(deliveries, (row, now) => {
      row.receipt = "";
      row.visibleAt = now;
      if (row.releases++ < 5) row.deliveryCount--; // five times it costs no attempt
    });
  }

  bury(delivery: Delivery<string>, letter: string): boolean {
    const [buried = false] = this.#settle([delivery], (row, now, rows, queues) => {
      rows.splice(rows.indexOf(row), 1);
      const fresh = { visibleAt: now, receipt: "", deliveryCount: 0, releases: 0 };
      const { id, replyTo } = row;
      (queues[`${this.#queue}.dead`] ??= [])
        .push({ id, body: letter, dedup: false, replyTo, enqueuedAt: now, ...fresh });
    });
    this.deadLetters().#wake();
    return buried;
  }

  checkpoint(delivery: Delivery<string>, progress: string): boolean {
    const [saved = false] = this.#settle([delivery], (row) => void (row.checkpoint = progress));
    return saved;
  }

  peek(max: number): Row[] {
    return this.#change((rows) => rows.slice(0, max));
  }

  count(): number {
    return this.#change((rows) => rows.length);
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

  close(): void {}

  /** Only a delivery whose lease lasts has a say. Whoever is late changes nothing, and hears so. */
  #settle(
    deliveries: readonly Delivery<string>[],
    settle: (row: Row, now: number, rows: Row[], queues: Queues) => void,
  ): boolean[] {
    const results = this.#change((rows, now, queues) =>
      deliveries.map(({ receipt }) => {
        const row = rows.find((it) => it.receipt === receipt && it.visibleAt > now);
        if (row !== undefined) settle(row, now, rows, queues);
        return row !== undefined;
      })
    );
    this.#wake();
    return results;
  }

  /** Reads, changes, writes. Nothing is awaited, so that it is one step for everybody here. */
  #change<R>(change: (rows: Row[], now: number, queues: Queues) => R): R {
    const text = existsSync(this.#path) ? readFileSync(this.#path, "utf8") : "{}";
    const queues: Queues = JSON.parse(text);
    const result = change(queues[this.#queue] ??= [], this.#clock.now(), queues);
    const changed = JSON.stringify(queues);
    if (changed !== text) {
      writeFileSync(`${this.#path}.new`, changed);
      renameSync(`${this.#path}.new`, this.#path); // all of it, or nothing
    }
    return result;
  }

  #wake(): void {
    for (const listener of this.#listeners) listener();
  }
}
