import type { EngineStats } from "../../mailbox/engine.ts";
import { RANGES, SqliteDelivery, type Statements, type StoredRow } from "./_statements.ts";

/** What the file has about a queue as a whole. */
export interface QueueRow {
  readonly size: number;
  readonly paused: number;
}

/** Returns the row of a queue, also before its first message. */
export function queueRow({ count }: Statements, queue: string): QueueRow {
  return (count.get(queue) ?? { size: 0, paused: 0 }) as QueueRow;
}

/** Returns the oldest messages, whatever their state. */
export function peek(
  statements: Statements,
  queue: string,
  max: number,
  now: number,
): SqliteDelivery[] {
  const rows = statements.peek.all(...each(RANGES, [queue, max]), max) as StoredRow[];
  return rows.map((row) => SqliteDelivery.stored(row, now));
}

/** Counts the messages by state. It reads only those that are delayed or in flight. */
export function stats(statements: Statements, queue: string, now: number): EngineStats {
  const { size, paused } = queueRow(statements, queue);
  const { hidden, leased } = statements.hidden.get(queue, now) as {
    readonly hidden: number;
    readonly leased: number;
  };
  const { at } = statements.oldestWaiting.get(...each(RANGES - 1, [queue, 1]), queue, now) as {
    readonly at: number | null;
  };
  return {
    waiting: size - hidden,
    delayed: hidden - leased,
    inFlight: leased,
    paused: paused === 1,
    ...(at !== null && { oldestWaitingMs: Math.max(0, now - at) }),
  };
}

/** Returns the names of all queues, without their dead letters. */
export function queues(statements: Statements): string[] {
  const rows = statements.queues.all() as { readonly name: string }[];
  return rows.map(({ name }) => name);
}

function each<T>(count: number, values: readonly T[]): T[] {
  return Array.from({ length: count }, () => values).flat();
}
