import type { Received } from "../../mailbox/engine.ts";
import type { QueueControl } from "../../mailbox/queue_control.ts";
import type { Random } from "../../random.ts";
import { nextPosition, perform } from "./_changes.ts";
import { controlOf, parseControl, saveControl } from "./_control.ts";
import {
  ANY_DUE,
  CONTROLLED,
  NONCE_BITS,
  type OrderedRow,
  type Row,
  SqliteDelivery,
  type Statements,
  type StoredRow,
} from "./_statements.ts";

/**
 * How many due messages one receive makes ready. Only when more fall due between two receives, some may be
 * delivered before an older one.
 */
const MAX_DUE = 10_000;

/** Returns the time until a message can be delivered: 0 when one can, `Infinity` when none can by itself. */
export function nextDueMs({ nextDue }: Statements, queue: string, now: number): number {
  const { due_at, control } = nextDue.get(queue, queue) as {
    readonly due_at: number | null;
    readonly control: string | null;
  };
  if (due_at === null) return Infinity;
  const dueMs = Math.max(0, due_at - now);
  if (control === null) return dueMs;
  const { max, nextMs } = parseControl(control).allowance(1, now);
  return max === 0 ? Math.max(dueMs, nextMs) : dueMs;
}

/** Who receives, and what. */
export interface Lease {
  readonly queue: string;
  readonly max: number;
  readonly visibilityMs: number;
  /** The number of this process among the owners of the file; 0 when it has none. */
  readonly owner: number;
}

/** Delivers the first ready messages, at most `max`. Runs in a transaction. */
export function lease(
  statements: Statements,
  { queue, max, visibilityMs, owner }: Lease,
  now: number,
  random: Random,
): Received<string> {
  let what = whatOf(statements.special.get(queue, queue, now, queue, queue));
  let control: QueueControl | undefined;
  if (what === CONTROLLED) {
    control = controlOf(statements, queue);
    max = control.allowance(max, now).max;
    if (max === 0) return { deliveries: [], nextDueMs: nextDueMs(statements, queue, now) };
    what = whatOf(statements.order.get(queue, now, queue, queue));
  }
  if (what === ANY_DUE) showDue(statements, queue, now);
  const nonce = owner * 2 ** NONCE_BITS + Math.floor(random.number() * 2 ** NONCE_BITS);
  const until = now + visibilityMs;
  const deliveries = what === undefined
    ? leasePlain(statements, queue, max, until, nonce)
    : leaseInLines(statements, queue, max, until, nonce);
  if (control !== undefined) {
    control.delivered(deliveries.length, now);
    saveControl(statements, queue, control, now);
  }
  const nextMs = deliveries.length === 0 ? nextDueMs(statements, queue, now) : 0;
  return { deliveries, nextDueMs: nextMs };
}

function whatOf(found: unknown): number | undefined {
  return (found as { readonly what: number } | null | undefined)?.what;
}

/** Leases messages of a queue without priorities and keys. */
function leasePlain(
  { firstPlain, lease }: Statements,
  queue: string,
  max: number,
  until: number,
  nonce: number,
): SqliteDelivery[] {
  const rows = firstPlain.all(queue, max) as Row[];
  const last = rows.at(-1);
  if (last !== undefined) lease.run(until, nonce, queue, 0, last.seq);
  return rows.map((row) => new SqliteDelivery(row, nonce));
}

function leaseInLines(
  { firstInLines, lease }: Statements,
  queue: string,
  max: number,
  until: number,
  nonce: number,
): SqliteDelivery[] {
  const rows = firstInLines.all(queue, max) as OrderedRow[];
  return rows.map((row, i) => {
    const { due_at, seq, key } = row;
    // Rows of one priority are next to each other and in the order of `seq`.
    if (rows[i + 1]?.due_at !== due_at) lease.run(until, nonce, queue, due_at, seq);
    return new SqliteDelivery(row, nonce, key);
  });
}

/** Makes messages ready whose delay or lease is over, unless another message of their key is first. */
export function showDue(statements: Statements, queue: string, now: number): void {
  const joining = statements.dueToJoin.all(queue, now, MAX_DUE) as {
    readonly seq: number;
    readonly key: string;
  }[];
  for (const { seq, key } of joining) join(statements, queue, seq, key);
  statements.makeDueReady.run(queue, now, MAX_DUE);
}

/** Makes a delayed message ready, unless another message of its key is first. */
export function showNow(
  statements: Statements,
  queue: string,
  { seq, key, position }: StoredRow,
): void {
  if (key !== null && position === null) join(statements, queue, seq, key);
  else statements.join.run(position, position, seq);
}

/** Puts a message at the end of the line of its key. */
function join(statements: Statements, queue: string, seq: number, key: string): void {
  const position = perform(nextPosition(queue, key), (name) => statements[name]);
  statements.join.run(position, position, seq);
}
