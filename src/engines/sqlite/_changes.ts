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
    const isStored = yield* storeOne(queue, entry, now);
    stored.push(isStored);
    if (isStored) count++;
  }
  if (count > 0) yield update("addToCount", queue, count);
  return stored;
}

function* storeOne(queue: string, entry: Entry<string>, now: number): Change<boolean> {
  const { id, dedup, dedupMs, key, priority = 0, delayMs, meta, checkpoint, body } = entry;
  if (dedupMs !== undefined && (yield query("isRemembered", queue, id, now))) return false;
  const dueAt = delayMs === 0 ? 0 - priority : now + delayMs;
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
  let changes: unknown;
  if (key === undefined && priority === 0) {
    // Each bound value counts where most messages have neither a key nor a priority.
    changes = yield { name: "send", values, isQuery: false };
  } else if (key === undefined || delayMs > 0) {
    changes = yield update("sendInOrder", ...values, priority, key ?? null, null);
  } else {
    changes = yield update("sendFirstOfKey", ...values, priority, key);
    if (changes === 0) {
      const position = yield* nextPosition(queue, key);
      values[1] = position === 0 ? dueAt : BLOCKED;
      changes = yield update("sendInOrder", ...values, priority, key, position);
    }
  }
  if (changes === 0) return false;
  if (dedupMs !== undefined) yield update("remember", queue, id, now + dedupMs);
  return true;
}

/** Returns the position at the end of the line of a key; 0 when it has no message. */
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
  const keys: string[] = [];
  let count = 0;
  for (const { seq, nonce, key } of deliveries as readonly SqliteDelivery[]) {
    const isHeld = (yield update("acknowledge", seq, nonce, now)) !== 0;
    results.push(isHeld);
    if (!isHeld) continue;
    count++;
    if (key !== null) keys.push(key);
  }
  if (count > 0) yield update("addToCount", queue, -count);
  let unblocked = false;
  if (keys.length > 0 && (yield query("isAnyBlocked", queue))) {
    for (const key of keys) {
      if ((yield update("unblock", queue, key)) !== 0) unblocked = true;
    }
  }
  return { results, unblocked };
}
