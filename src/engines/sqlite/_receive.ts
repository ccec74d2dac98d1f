import type { Received } from "../../mailbox/engine.ts";
import type { Random } from "../../random.ts";
import { nextPosition, perform } from "./_changes.ts";
import { BLOCKED } from "./_schema.ts";
import { type Row, SqliteDelivery, type Statements } from "./_statements.ts";

/**
 * How many due messages one receive makes ready. Only when more fall due between two receives, some may be
 * delivered before an older one.
 */
const MAX_DUE = 10_000;

/** Returns the time until a message is visible: 0 when one is, `Infinity` when none is or will be. */
export function nextDueMs({ nextDue }: Statements, queue: string, now: number): number {
  const { due_at, paused } = nextDue.get(queue, queue) as {
    readonly due_at: number | null;
    readonly paused: number | null;
  };
  return due_at === null || paused === 1 ? Infinity : Math.max(0, due_at - now);
}

/** Delivers the first ready messages, at most `max`. Runs in a transaction. */
export function lease(
  statements: Statements,
  queue: string,
  max: number,
  visibilityMs: number,
  now: number,
  random: Random,
): Received<string> {
  // Usually none is due, and this read is cheaper than an update of no rows.
  if (statements.isAnyDue.get(queue, now)) showDue(statements, queue, now);
  const rows = statements.firstReady.all(queue, queue, max) as Row[];
  if (rows.length === 0) {
    return { deliveries: [], nextDueMs: nextDueMs(statements, queue, now) };
  }
  const nonce = Math.floor(random.number() * Number.MAX_SAFE_INTEGER);
  const until = now + visibilityMs;
  for (const [i, { due_at, seq }] of rows.entries()) {
    // Rows of one priority are next to each other and in the order of `seq`.
    if (rows[i + 1]?.due_at !== due_at) statements.lease.run(until, nonce, queue, due_at, seq);
  }
  return { deliveries: rows.map((row) => new SqliteDelivery(row, nonce)), nextDueMs: 0 };
}

/** Makes messages ready whose delay or lease is over, unless another message of their key is first. */
function showDue(statements: Statements, queue: string, now: number): void {
  const joining = statements.dueToJoin.all(queue, now, MAX_DUE) as {
    readonly seq: number;
    readonly key: string;
    readonly priority: number;
  }[];
  for (const { seq, key, priority } of joining) {
    const position = perform(nextPosition(queue, key), (name) => statements[name]);
    statements.join.run(position === 0 ? 0 - priority : BLOCKED, position, seq);
  }
  statements.makeDueReady.run(queue, now, MAX_DUE);
}
