import type { Clock } from "../../clock.ts";
import type { Maybe } from "../../mailbox/engine.ts";
import type { Connection } from "./_connection.ts";
import type { OpenFile } from "./_file.ts";
import { sizeOf } from "./_queries.ts";
import { showDue, showNow } from "./_receive.ts";
import { SqliteDelivery, stateOf, type StoredRow } from "./_statements.ts";

/** In a queue with at most so many messages, reading all of them is fast enough. */
const SCANNED = 1_000;

/**
 * Returns the message with this id.
 *
 * Chosen ids have an index. One of generated ids would make every message a third more expensive, for programs
 * that never ask for one. So it is created by the first search for a generated id in a long queue, and stays.
 */
export function findById(
  connection: Connection,
  queue: string,
  id: string,
  now: number,
): Maybe<SqliteDelivery | undefined> {
  const stored = (row: StoredRow | undefined) => row && SqliteDelivery.stored(row, now);
  const found = connection.read(() => search(connection.opened, queue, id));
  const orIndex = (row: StoredRow | "no index" | undefined) =>
    row === "no index"
      ? connection.write(() => stored(findInTransaction(connection.opened, queue, id)))
      : stored(row);
  return found instanceof Promise ? found.then(orIndex) : orIndex(found);
}

/** The same as {@linkcode findById}, within a transaction of the connection. */
export function findInTransaction(
  file: OpenFile,
  queue: string,
  id: string,
): StoredRow | undefined {
  const row = search(file, queue, id);
  if (row !== "no index") return row;
  const { database, prefix } = file;
  database.exec(
    `CREATE INDEX IF NOT EXISTS ${prefix}generated_id ON ${prefix}message (id) WHERE chosen = 0`,
  );
  return search(file, queue, id) as StoredRow | undefined;
}

/** Ends the delay of the message with this id. Resolves to false when there is no such delayed message. */
export function showById(
  connection: Connection,
  queue: string,
  id: string,
  clock: Clock,
): Promise<boolean> {
  return connection.write(() => {
    const { opened } = connection;
    const now = clock.now();
    showDue(opened.statements, queue, now); // messages that are due join the lines of their keys first
    const row = findInTransaction(opened, queue, id);
    if (row === undefined || stateOf(row, now) !== "delayed") return false;
    showNow(opened.statements, queue, row);
    return true;
  });
}

function search(
  { statements }: OpenFile,
  queue: string,
  id: string,
): StoredRow | "no index" | undefined {
  const { findChosen, scanGenerated, findGenerated, hasIdIndex } = statements;
  const chosen = findChosen.get(queue, id) as StoredRow | null | undefined;
  if (chosen) return chosen;
  const isShort = sizeOf(statements, queue) <= SCANNED;
  if (!isShort && !hasIdIndex.get()) return "no index";
  const row = isShort ? scanGenerated.get(queue, id) : findGenerated.get(id, queue);
  return (row ?? undefined) as StoredRow | undefined;
}
