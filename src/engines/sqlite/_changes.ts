/**
 * The changes that also run in a transaction of the caller, as steps. A generator yields each statement and
 * gets its result, so that one description serves clients with and without promises.
 *
 * @module
 */

import { type Delivery, type Entry, freshnessOf } from "../../mailbox/engine.ts";
import { fullError } from "../../mailbox/errors.ts";
import type { SqliteStatement, SqliteValue } from "./drivers.ts";
import { BLOCKED } from "./_schema.ts";
import type { SqliteDelivery, StatementName } from "./_statements.ts";

/** A statement to run. A query gets its first row, any other statement the number of rows it changed. */
export interface Step {
  readonly name: StatementName;
  readonly values: readonly SqliteValue[];
  readonly isQuery: boolean;
}

/** A change: yields statements, gets their results, and returns its own. */
export type Change<T> = Generator<Step, T, unknown>;

/** How many outdated ids each send deletes, beside as many as it adds. */
const FORGOTTEN_PER_SEND = 10;

function query(name: StatementName, ...values: readonly SqliteValue[]): Step {
  return { name, values, isQuery: true };
}

function update(name: StatementName, ...values: readonly SqliteValue[]): Step {
  return { name, values, isQuery: false };
}

/** Performs a change on prepared statements. */
export function perform<T>(
  change: Change<T>,
  statementOf: (name: StatementName) => SqliteStatement,
): T {
  let step = change.next();
  while (!step.done) {
    const { name, values, isQuery } = step.value;
    const statement = statementOf(name);
    step = change.next(
      isQuery ? statement.get(...values) ?? undefined : Number(statement.run(...values).changes),
    );
  }
  return step.value;
}

/** Throws when the queue has no room for the entries. Changes nothing. */
export function* checkRoom(
  queue: string,
  entries: readonly Entry<string>[],
  maxSize: number,
  now: number,
): Change<void> {
  if (maxSize === Infinity) return;
  const stored = new Set<string>();
  const remembered = new Set<string>();
  for (const { id, dedup, dedupMs } of entries) {
    if (dedup && (yield query("isStored", queue, id))) stored.add(id);
    if (dedupMs !== undefined && (yield query("isRemembered", queue, id, now))) remembered.add(id);
  }
  const isFresh = freshnessOf(entries, (id, dedupMs) => {
    return stored.has(id) || dedupMs !== undefined && remembered.has(id);
  });
  const fresh = isFresh.filter(Boolean).length;
  const size = Number(firstValue(yield query("count", queue)) ?? 0);
  if (size + fresh > maxSize) throw fullError(queue, size, maxSize, fresh);
}

/** Stores entries. Returns for each whether it was stored. */
export function* store(
  queue: string,
  entries: readonly Entry<string>[],
  now: number,
): Change<boolean[]> {
  if (entries.some(({ dedupMs }) => dedupMs !== undefined)) {
    yield update("forget", now, FORGOTTEN_PER_SEND + entries.length);
  }
  const stored: boolean[] = [];
  let count = 0;
  for (const entry of entries) {
    const { id, dedup, dedupMs, key, priority = 0, delayMs, meta, checkpoint, body } = entry;
    let isStored = false;
    if (dedupMs === undefined || !(yield query("isRemembered", queue, id, now))) {
      const joins = key !== undefined && delayMs === 0;
      const position = joins ? yield* nextPosition(queue, key) : null;
      const readyAt = position ? BLOCKED : 0 - priority;
      const dueAt = delayMs === 0 ? readyAt : now + delayMs;
      const sentAt = Math.floor(now);
      const values = [
        queue,
        dueAt,
        dedup ? 1 : 0,
        id,
        sentAt,
        meta ?? null,
        checkpoint ?? null,
        body,
      ];
      // Each bound value counts where most messages have neither a key nor a priority.
      const changes = key === undefined && priority === 0
        ? yield { name: "send", values, isQuery: false }
        : yield update("sendInOrder", ...values, priority, key ?? null, position);
      isStored = (changes as number) > 0;
      if (isStored && dedupMs !== undefined) yield update("remember", queue, id, now + dedupMs);
    }
    stored.push(isStored);
    if (isStored) count++;
  }
  if (count > 0) yield update("addToCount", queue, count);
  return stored;
}

/** Returns the position at the end of the line of a key; 0 for the first message. */
export function* nextPosition(queue: string, key: string): Change<number> {
  const position = firstValue(yield query("lastPosition", queue, key));
  return position === null ? 0 : Number(position) + 1;
}

/** A client of the caller may rename columns, return arrays or use big integers. */
function firstValue(row: unknown): unknown {
  return row === undefined ? undefined : Object.values(row as object)[0];
}

/** The result of {@linkcode acknowledge}. */
export interface Acknowledged {
  /** For each delivery whether its receipt handle was valid. */
  readonly results: readonly boolean[];
  /** True when the next message of a key became ready. */
  readonly unblocked: boolean;
}

/** Removes messages, and makes the next ones of their keys ready. */
export function* acknowledge(
  queue: string,
  deliveries: readonly Delivery<string>[],
  now: number,
): Change<Acknowledged> {
  const results: boolean[] = [];
  let count = 0;
  let unblocked = false;
  for (const { seq, nonce, key } of deliveries as readonly SqliteDelivery[]) {
    const isHeld = ((yield update("acknowledge", seq, nonce, now)) as number) > 0;
    results.push(isHeld);
    if (!isHeld) continue;
    count++;
    if (key !== null && ((yield update("unblock", queue, key)) as number) > 0) unblocked = true;
  }
  if (count > 0) yield update("addToCount", queue, -count);
  return { results, unblocked };
}
