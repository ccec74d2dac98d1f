/** The part of the engine of example 14 that settles deliveries: each call changes unexpired leases only. */

import { type Delivery, FREE_RELEASES } from "../src/engine.ts";
import { FileQueue } from "./_file_queue.ts";
import type { Queues, Row } from "./_file_rows.ts";

type Deliveries = readonly Delivery<string>[];

export class SettlingQueue extends FileQueue {
  acknowledge(deliveries: Deliveries): boolean[] {
    return this.settle(deliveries, (row, _, rows) => rows.splice(rows.indexOf(row), 1));
  }

  extend(deliveries: Deliveries, visibilityMs: number): boolean[] {
    return this.settle(deliveries, (row, now) => {
      row.visibleAt = Math.max(row.visibleAt, now + visibilityMs); // never shorter
    });
  }

  nack(deliveries: Deliveries, delayMs: number, countsAttempt: boolean): boolean[] {
    return this.settle(deliveries, (row, now) => {
      Object.assign(row, { receiptHandle: "", visibleAt: now + delayMs });
      if (!countsAttempt) row.deliveryCount--;
    });
  }

  release(deliveries: Deliveries): boolean[] {
    return this.settle(deliveries, (row, now) => {
      Object.assign(row, { receiptHandle: "", visibleAt: now });
      if (row.releases++ < FREE_RELEASES) row.deliveryCount--;
    });
  }

  checkpoint(delivery: Delivery<string>, checkpoint: string): boolean {
    // A message that advances may be released again without spending an attempt.
    return this.settle([delivery], (row) => Object.assign(row, { checkpoint, releases: 0 }))[0]!;
  }

  /** Returns false for each stale delivery. */
  protected settle(
    deliveries: Deliveries,
    settle: (row: Row, now: number, rows: Row[], queues: Queues) => void,
  ): boolean[] {
    const results = this.change((rows, now, queues) =>
      deliveries.map(({ receiptHandle }) => {
        const row = rows.find((it) => it.receiptHandle === receiptHandle && it.visibleAt > now);
        if (row !== undefined) settle(row, now, rows, queues);
        return row !== undefined;
      })
    );
    this.wake();
    return results;
  }
}
