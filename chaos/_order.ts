// Checks the promises of keys: the messages of a key are handled one at a time and in order.

import type { Handling } from "./_ledger.ts";
import { keyOf } from "./_sender.ts";

/** What went wrong with the order of keys. */
export interface OrderFaults {
  /** Messages that completed before an earlier message of their key. */
  readonly inversions: readonly string[];
  /** Messages whose handler started while a handler of the same key was running. */
  readonly overlaps: readonly string[];
}

/**
 * Checks the handlings of a run with keys. An accepted acknowledgement proves that the lease was valid from
 * the start of the handler to its end; a refused one belongs to a handler whose lease was lost, and is not
 * counted. Where the answer is not known, because the worker died or the connection broke, `keptLeases` tells
 * whether the lease was valid: true unless workers were suspended or the engine was away.
 */
export function orderFaultsOf(
  handlings: Iterable<Handling>,
  keys: number,
  keptLeases: boolean,
): OrderFaults {
  const lines = new Map<string, Handling[]>();
  for (const handling of handlings) {
    if (!(handling.acknowledged ?? keptLeases)) continue;
    const key = keyOf(Number(handling.id), keys);
    const line = lines.get(key);
    if (line === undefined) lines.set(key, [handling]);
    else line.push(handling);
  }
  const all = [...lines.values()];
  return { inversions: all.flatMap(inversionsOf), overlaps: all.flatMap(overlapsOf) };
}

/** Compares the first completions of the messages of one key. */
function inversionsOf(line: readonly Handling[]): string[] {
  const completedAt = new Map<number, number>();
  for (const { id, completed, endedAt } of line) {
    if (!completed) continue;
    const n = Number(id);
    completedAt.set(n, Math.min(endedAt!, completedAt.get(n) ?? Infinity));
  }
  const inversions: string[] = [];
  let latest = -Infinity;
  for (const [n, at] of [...completedAt].sort(([a], [b]) => a - b)) {
    if (at < latest) inversions.push(`${n}`);
    latest = Math.max(latest, at);
  }
  return inversions;
}

/** Compares each start with the latest end of the handlings of one key that started before. */
function overlapsOf(line: readonly Handling[]): string[] {
  const overlaps: string[] = [];
  let latest = -Infinity;
  for (const { id, startedAt, endedAt = Infinity } of line.toSorted(byStart)) {
    if (startedAt < latest) overlaps.push(id);
    latest = Math.max(latest, endedAt);
  }
  return overlaps;
}

/** Of two that start in the same millisecond, the one that ends first was first. */
function byStart(a: Handling, b: Handling): number {
  return a.startedAt - b.startedAt || (a.endedAt ?? Infinity) - (b.endedAt ?? Infinity);
}
