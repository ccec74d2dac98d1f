import { type Entry, freshnessOf } from "../../mailbox/engine.ts";
import { fullError } from "../../mailbox/errors.ts";
import type { SqlParameter, SqlRow } from "./client.ts";
import { arrayLiteral, type Statements } from "./_statements.ts";

/** The row that a send returns. */
interface Sent {
  /** For a bounded queue: its size before the send, and how many messages were new. */
  readonly size?: number | null;
  readonly fresh?: number | null;
  /** The stored ids that senders chose, as JSON. */
  readonly ids: string | null;
  /** The ids that were not stored because they are remembered, as JSON. */
  readonly refused?: string | null;
}

/** Returns true when the entries need nothing but an insert. */
export function isPlain(entries: readonly Entry<string>[]): boolean {
  return entries.every(({ key, dedupMs }) => key === undefined && dedupMs === undefined);
}

/** Returns the statement that stores the entries, and its parameters. */
export function sendOf(
  queue: string,
  entries: readonly Entry<string>[],
  maxSize: number,
): readonly [statement: keyof Statements, parameters: SqlParameter[]] {
  if (!isPlain(entries)) return ["store", storeParameters(queue, entries, maxSize)];
  const plain = plainParameters(queue, entries);
  if (maxSize !== Infinity) return ["sendBounded", [...plain, `${maxSize}`]];
  return [entries.some(({ dedup }) => dedup) ? "send" : "sendGenerated", plain];
}

/** Returns the parameters of `send` and `sendGenerated`, and the first ones of `sendBounded` and `store`. */
function plainParameters(queue: string, entries: readonly Entry<string>[]): SqlParameter[] {
  return [
    queue,
    arrayLiteral(entries.map(({ id }) => id)),
    arrayLiteral(entries.map(({ dedup }) => dedup)),
    arrayLiteral(entries.map(({ body }) => body)),
    arrayLiteral(entries.map(({ delayMs }) => delayMs)),
    arrayLiteral(entries.map(({ meta = null }) => meta)),
    arrayLiteral(entries.map(({ checkpoint = null }) => checkpoint)),
    arrayLiteral(entries.map(({ priority = 0 }) => priority)),
  ];
}

/** Returns the parameters of `store`, and the first ones of `storeInTransaction`. */
export function storeParameters(
  queue: string,
  entries: readonly Entry<string>[],
  maxSize: number,
): SqlParameter[] {
  return [
    ...plainParameters(queue, entries),
    arrayLiteral(entries.map(({ key = null }) => key)),
    arrayLiteral(turnsOf(entries)),
    arrayLiteral(entries.map(({ dedupMs = null }) => dedupMs)),
    maxSize === Infinity ? null : `${maxSize}`,
  ];
}

/** Returns the place of each entry among those with its key, from 1. A delayed one has no place until it is due. */
function turnsOf(entries: readonly Entry<string>[]): number[] {
  const turns = new Map<string, number>();
  return entries.map(({ key, delayMs }) => {
    if (key === undefined || delayMs > 0) return 1;
    const turn = (turns.get(key) ?? 0) + 1;
    turns.set(key, turn);
    return turn;
  });
}

/** Returns for each entry whether it was stored. Throws when the queue was too full for them. */
export function storedOf(
  queue: string,
  entries: readonly Entry<string>[],
  maxSize: number,
  rows: readonly SqlRow[],
): boolean[] {
  const [row] = rows as readonly unknown[] as readonly Sent[];
  if (row === undefined) return entries.map(() => true); // nothing could prevent it
  const { size, fresh, ids, refused } = row;
  if (Number(size ?? 0) + Number(fresh ?? 0) > maxSize) {
    throw fullError(queue, Number(size), maxSize, Number(fresh));
  }
  const stored = new Set<string>(JSON.parse(ids ?? "[]"));
  const remembered = new Set<string>(JSON.parse(refused ?? "[]"));
  return freshnessOf(entries, (id, dedupMs) => {
    return !stored.has(id) || dedupMs !== undefined && remembered.has(id);
  });
}

/** After so many new remembered ids, old ones are deleted, at least ten times as many. */
const IDS_PER_CLEANUP = 100;

/** Deletes ids that are not remembered any more, faster than sends add new ones. */
export class OldIds {
  readonly #delete: (limit: number) => void;
  /** How many ids were remembered since old ones were deleted. A process that sends few deletes some too. */
  #remembered = IDS_PER_CLEANUP;

  /** `deleteSome` deletes so many ids at the most. */
  constructor(deleteSome: (limit: number) => void) {
    this.#delete = deleteSome;
  }

  /** Counts the ids that were sent, and deletes old ones when there are enough. */
  onSend(sent: readonly Entry<string>[]): void {
    const added = sent.filter(({ dedupMs }) => dedupMs !== undefined).length;
    this.#remembered += added;
    if (added === 0 || this.#remembered < IDS_PER_CLEANUP) return;
    const limit = 10 * this.#remembered;
    this.#remembered = 0;
    this.#delete(limit);
  }
}
