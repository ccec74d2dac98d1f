import type { Clock } from "../../clock.ts";
import type { Connection } from "./_connection.ts";
import { findInTransaction } from "./_lookup.ts";
import { BLOCKED } from "./_schema.ts";
import { stateOf } from "./_statements.ts";
import { wakeLocal } from "./_wake_ups.ts";

/** How long the file keeps the id of a message that was cancelled in flight, for the other processes. */
const KEPT_MS = 60_000;

/** How many outdated ids each cancel deletes. */
const PRUNED = 100;

/** The result of {@linkcode CancelledMessages.cancel}. */
export interface CancelResult {
  readonly found: boolean;
  /** True when the next message of the key became ready. */
  readonly unblocked: boolean;
}

/**
 * Cancels messages of a queue. The ids of those in flight are in a table for a minute. Listeners read it after
 * every change of the file: at once after one of this process, and at the next look at the file after one of
 * another process.
 */
export class CancelledMessages {
  readonly #queue: string;
  readonly #connection: Connection;
  readonly #clock: Clock;

  constructor(queue: string, connection: Connection, clock: Clock) {
    this.#queue = queue;
    this.#connection = connection;
    this.#clock = clock;
  }

  /** Deletes the message with this id, whatever its state. */
  async cancel(id: string): Promise<CancelResult> {
    const { wasInFlight, ...result } = await this.#connection.write(() => this.#remove(id));
    const { closing, realPath } = this.#connection;
    if (wasInFlight && !closing) wakeLocal(realPath, this.#queue, "cancelled");
    return result;
  }

  /** Calls `listener` with each id. Returns a function that ends it. */
  listen(listener: (id: string) => void): () => void {
    if (this.#connection.closing) return () => {};
    let last = this.#last();
    const report = () => {
      const { cancelledSince } = this.#connection.opened.statements;
      const rows = cancelledSince.all(last, this.#queue) as {
        readonly number: number;
        readonly id: string;
      }[];
      for (const { number, id } of rows) {
        last = number;
        listener(id);
      }
    };
    return this.#connection.onChange(this.#queue, "cancelled", report);
  }

  #remove(id: string): CancelResult & { readonly wasInFlight: boolean } {
    const { opened } = this.#connection;
    const { remove, unblock, addToCount, addCancelled, pruneCancelled } = opened.statements;
    const queue = this.#queue;
    const row = findInTransaction(opened, queue, id);
    if (row === undefined) return { found: false, unblocked: false, wasInFlight: false };
    const now = this.#clock.now();
    remove.run(row.seq);
    addToCount.run(queue, -1);
    const wasFirst = row.position !== null && row.due_at < BLOCKED;
    const unblocked = wasFirst && Number(unblock.run(queue, row.key).changes) > 0;
    const wasInFlight = stateOf(row, now) === "inFlight";
    if (wasInFlight) {
      addCancelled.run(queue, id, now);
      pruneCancelled.run(now - KEPT_MS, PRUNED);
    }
    return { found: true, unblocked, wasInFlight };
  }

  /** Returns the number of the last id. Listeners hear of later ones only. */
  #last(): number {
    try {
      const { lastCancelled } = this.#connection.opened.statements;
      return (lastCancelled.get() as { readonly number: number | null }).number ?? 0;
    } catch {
      return 0; // the ids of the last minute are reported as well, and the listener holds none of them
    }
  }
}
