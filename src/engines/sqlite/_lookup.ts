import type { Maybe } from "../../mailbox/engine.ts";
import type { Connection } from "./_connection.ts";
import type { OpenFile } from "./_file.ts";
import { sizeOf } from "./_queries.ts";
import type { StoredRow } from "./_statements.ts";

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
): Maybe<StoredRow | undefined> {
  const found = connection.read(() => search(connection.opened, queue, id));
  const orIndex = (row: StoredRow | "no index" | undefined) =>
    row === "no index"
      ? connection.write(() => findInTransaction(connection.opened, queue, id))
      : row;
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
