import type { EngineStats } from "../../mailbox/engine.ts";
import { controlOf } from "./_control.ts";
import { RANGES, SqliteDelivery, type Statements, type StoredRow } from "./_statements.ts";

/** Returns the number of messages of a queue. */
export function sizeOf({ count }: Statements, queue: string): number {
  return (count.get(queue) as { readonly size: number } | null | undefined)?.size ?? 0;
}

/** Returns the oldest messages after the first `skip`, whatever their state. */
export function peek(
  statements: Statements,
  queue: string,
  max: number,
  skip: number,
  now: number,
): SqliteDelivery[] {
  const ranges = [queue, skip + max, ...each(RANGES, [queue])];
  const rows = statements.peek.all(...ranges, max, skip) as StoredRow[];
  return rows.map((row) => SqliteDelivery.stored(row, now));
}

/** Counts the messages by state. It reads only those that are delayed or in flight. */
export function stats(statements: Statements, queue: string, now: number): EngineStats {
  const size = sizeOf(statements, queue);
  const { hidden, leased } = statements.hidden.get(queue, now) as {
    readonly hidden: number;
    readonly leased: number;
  };
  const { at } = statements.oldestWaiting.get(...each(RANGES, [queue, 1]), queue, now) as {
    readonly at: number | null;
  };
  return {
    waiting: size - hidden,
    delayed: hidden - leased,
    inFlight: leased,
    ...controlOf(statements, queue).stats(now),
    ...(at !== null && { oldestWaitingMs: Math.max(0, now - at) }),
  };
}

/** Returns the names of all queues, without their dead letters. */
export function queues(statements: Statements): string[] {
  const rows = statements.queues.all() as { readonly name: string }[];
  return rows.map(({ name }) => name);
}

/** Deletes all messages and remembered ids of a queue. Returns the number of messages. */
export function purge(statements: Statements, queue: string): number {
  const count = Number(statements.purge.run(queue).changes);
  statements.forgetAll.run(queue);
  statements.resetCount.run(queue);
  return count;
}

/** Deletes everything of a queue. */
export function drop(statements: Statements, queue: string): void {
  const { purge, forgetAll, dropCancelled, dropControl, dropQueue } = statements;
  for (const drop of [purge, forgetAll, dropCancelled, dropControl, dropQueue]) drop.run(queue);
}

function each<T>(count: number, values: readonly T[]): T[] {
  return Array.from({ length: count }, () => values).flat();
}
