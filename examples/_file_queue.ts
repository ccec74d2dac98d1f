/** The part of the engine of example 14 that stores, delivers and counts messages. */

import type { Clock } from "../mod.ts";
import { type Entry, freshnessOf, type Received } from "../src/engine.ts";
import { changeFile, newRow, type Queues, type Row } from "./_file_rows.ts";

export class FileQueue {
  readonly #listeners = new Set<() => void>();
  protected readonly path: string;
  protected readonly name: string;
  protected readonly clock: Clock;

  constructor(path: string, name: string, clock: Clock) {
    [this.path, this.name, this.clock] = [path, name, clock];
  }

  send(entries: readonly Entry<string>[]): boolean[] {
    const stored = this.change((rows, now) => {
      const isFresh = freshnessOf(entries, (id) => rows.some((row) => row.dedup && row.id === id));
      rows.push(...entries.filter((_, i) => isFresh[i]).map((entry) => newRow(entry, now)));
      return isFresh;
    });
    this.wake();
    return stored;
  }

  receive(max: number, visibilityMs: number): Received<string> {
    return this.change((rows, now) => {
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

  onWake(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Lets a `receive` that waits look again. */
  protected wake(): void {
    for (const listener of this.#listeners) listener();
  }

  protected change<R>(change: (rows: Row[], now: number, queues: Queues) => R): R {
    return changeFile(this.path, (queues) => {
      return change(queues[this.name] ??= [], this.clock.now(), queues);
    });
  }
}
