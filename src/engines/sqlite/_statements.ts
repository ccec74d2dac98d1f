import type { Delivery, MessageState } from "../../mailbox/engine.ts";
import type { SqliteDatabase, SqliteStatement } from "./drivers.ts";
import { BLOCKED } from "./_schema.ts";

/** A message as the file stores it. */
export interface Row {
  readonly seq: number;
  readonly id: string;
  readonly body: string;
  readonly meta: string | null;
  readonly deliveries: number;
  readonly enqueued_at: number;
  readonly checkpoint: string | null;
  readonly expiries: number;
}

/** A message with its place in the order. */
export interface OrderedRow extends Row {
  readonly due_at: number;
  readonly key: string | null;
}

/** A message with what tells its state. */
export interface StoredRow extends OrderedRow {
  readonly nonce: number | null;
  readonly position: number | null;
}

/** A message that was read from the file. */
export class SqliteDelivery implements Delivery<string> {
  readonly seq: number;
  readonly nonce: number;
  readonly key: string | null;
  readonly id: string;
  readonly body: string;
  readonly meta: string | undefined;
  readonly deliveryCount: number;
  readonly enqueuedAt: number;
  readonly checkpoint: string | undefined;
  readonly leaseExpiries: number;
  readonly state: MessageState | undefined;

  /**
   * `row` is the message before the delivery. All deliveries of one receive share a nonce. Without a nonce the
   * message was only looked at, and has a state.
   */
  constructor(
    row: Row,
    nonce: number | undefined,
    key: string | null = null,
    state?: MessageState,
  ) {
    this.seq = row.seq;
    this.nonce = nonce ?? 0;
    this.key = key;
    this.id = row.id;
    this.body = row.body;
    this.meta = row.meta ?? undefined;
    this.deliveryCount = row.deliveries + (nonce === undefined ? 0 : 1);
    this.enqueuedAt = row.enqueued_at;
    this.checkpoint = row.checkpoint ?? undefined;
    this.leaseExpiries = row.expiries;
    this.state = state;
  }

  /** Returns a message that was not received. */
  static stored(row: StoredRow, now: number): SqliteDelivery {
    return new SqliteDelivery(row, undefined, row.key, stateOf(row, now));
  }

  get receiptHandle(): string {
    return `${this.seq}-${this.nonce}`;
  }
}

/** A delay or lease that has passed counts as waiting, also before a receive notices it. */
export function stateOf(
  { due_at, nonce }: Pick<StoredRow, "due_at" | "nonce">,
  now: number,
): MessageState {
  if (due_at <= now || due_at >= BLOCKED) return "waiting";
  return nonce === null ? "delayed" : "inFlight";
}

/** What `special` reports of a queue: the first that applies. It may be paused, or have a rate limit. */
export const CONTROLLED = 1;
/** The delay or lease of a message is over. */
export const ANY_DUE = 2;
/** Messages have priorities or keys. */
export const IN_LINES = 3;

/** A nonce is the number of the owner, followed by so many random bits. It has at most 53 bits. */
export const NONCE_BITS = 30;

const COLUMNS = "seq, id, body, meta, deliveries, enqueued_at, checkpoint, expiries";

const STORED = `${COLUMNS}, due_at, key, nonce, position`;

const SENT = "queue, due_at, chosen, id, enqueued_at, meta, checkpoint, body";

/** The target is named, so that a conflict of positions is an error and not taken for a duplicate. */
const UNLESS_STORED = "ON CONFLICT (queue, id) WHERE chosen = 1 DO NOTHING";

/** Only unexpired leases can settle. */
const HELD = "seq = ? AND nonce = ? AND due_at > ?";

/** Where messages are in the order of their `seq`: ready with each priority, and blocked. */
const IN_ORDER = [0, -1, -2, -3, -4, -5, -6, -7, -8, -9, BLOCKED].map((it) => `due_at = ${it}`);

/** For how many ranges `peek` needs the queue, and `oldestWaiting` the queue and a limit. */
export const RANGES: number = IN_ORDER.length;

/** Returns the statements on tables whose names begin with `prefix`. */
function sqlOf(prefix: string) {
  const message = `${prefix}message`;
  const queue = `${prefix}queue`;
  const remembered = `${prefix}remembered`;
  const cancelled = `${prefix}cancelled`;
  const control = `${prefix}control`;
  const owner = `${prefix}owner`;
  const byDue = `${message} INDEXED BY ${prefix}due`;
  const byKey = `${message} INDEXED BY ${prefix}key_line`;

  /** Selects the oldest messages of each range, without reading the others. */
  const oldestOf = (...ranges: readonly string[]) =>
    ranges.map((range) =>
      `SELECT seq FROM (SELECT seq FROM ${byDue} WHERE queue = ? AND ${range} ORDER BY seq LIMIT ?)`
    ).join(" UNION ALL ");
  const order = `SELECT ${ANY_DUE} AS what FROM (
        SELECT 1 FROM ${byDue} WHERE queue = ? AND due_at > 0 AND due_at <= ? LIMIT 1)
      UNION ALL SELECT ${IN_LINES} FROM (
        SELECT 1 FROM ${byDue} WHERE queue = ? AND due_at < 0 LIMIT 1)
      UNION ALL SELECT ${IN_LINES} FROM (
        SELECT 1 FROM ${byKey} WHERE queue = ? AND position IS NOT NULL LIMIT 1)`;

  return {
    begin: "BEGIN IMMEDIATE",
    commit: "COMMIT",
    rollback: "ROLLBACK",

    send: `INSERT INTO ${message} (${SENT}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ${UNLESS_STORED}`,
    sendInOrder: `INSERT INTO ${message} (${SENT}, priority, key, position)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ${UNLESS_STORED}`,
    // Changes nothing for a duplicate, and when the key has a message: the first one has position 0.
    sendFirstOfKey: `INSERT INTO ${message} (${SENT}, priority, key, position)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0) ON CONFLICT DO NOTHING`,
    isStored: `SELECT 1 FROM ${message} WHERE queue = ? AND id = ? AND chosen = 1`,
    isRemembered: `SELECT 1 FROM ${remembered} WHERE queue = ? AND id = ? AND until > ?`,
    remember: `INSERT INTO ${remembered} (queue, id, until) VALUES (?, ?, ?)
      ON CONFLICT (queue, id) DO UPDATE SET until = excluded.until`,
    forget: `DELETE FROM ${remembered} WHERE (queue, id) IN (
        SELECT queue, id FROM ${remembered} WHERE until <= ? ORDER BY until LIMIT ?)`,
    lastPosition: `SELECT max(position) AS position FROM ${byKey}
      WHERE queue = ? AND key = ? AND position IS NOT NULL`,
    isAnyBlocked: `SELECT 1 FROM ${byDue} WHERE queue = ? AND due_at = ${BLOCKED} LIMIT 1`,
    unblock: `UPDATE ${message} SET due_at = 0 - priority, position = 0
      WHERE due_at = ${BLOCKED} AND seq = (SELECT seq FROM ${byKey}
        WHERE queue = ? AND key = ? AND position IS NOT NULL ORDER BY position LIMIT 1)`,

    nextDue:
      `SELECT min(due_at) AS due_at, (SELECT state FROM ${control} WHERE queue = ?) AS control
      FROM ${byDue} WHERE queue = ?`,
    // Most queues have nothing of this most of the time: then it returns no row, which is cheap.
    special: `SELECT ${CONTROLLED} AS what FROM ${control} WHERE queue = ? UNION ALL ${order}`,
    order: `${order}`,
    dueToJoin: `SELECT seq, key FROM ${byDue}
      WHERE queue = ? AND due_at > 0 AND due_at <= ? AND key IS NOT NULL AND position IS NULL
      ORDER BY due_at, seq LIMIT ?`,
    // The position twice; null for a message without a key.
    join: `UPDATE ${message} SET due_at = iif(? > 0, ${BLOCKED}, 0 - priority), position = ?
      WHERE seq = ?`,
    makeDueReady: `UPDATE ${message} SET due_at = 0 - priority,
        expiries = expiries + (nonce IS NOT NULL), nonce = NULL WHERE seq IN (
        SELECT seq FROM ${byDue} WHERE queue = ? AND due_at > 0 AND due_at <= ?
          AND (key IS NULL OR position IS NOT NULL) ORDER BY due_at, seq LIMIT ?)`,
    firstPlain: `SELECT ${COLUMNS} FROM ${byDue}
      WHERE queue = ? AND due_at = 0 ORDER BY seq LIMIT ?`,
    firstInLines: `SELECT ${COLUMNS}, due_at, key FROM ${byDue}
      WHERE queue = ? AND due_at <= 0 ORDER BY due_at, seq LIMIT ?`,
    lease: `UPDATE ${byDue} SET due_at = ?, nonce = ?, deliveries = deliveries + 1
      WHERE queue = ? AND due_at = ? AND seq <= ?`,

    acknowledge: `DELETE FROM ${message} WHERE ${HELD}`,
    extend: `UPDATE ${message} SET due_at = max(due_at, ?) WHERE ${HELD}`,
    nack: `UPDATE ${message} SET due_at = coalesce(?, 0 - priority), nonce = NULL,
        deliveries = deliveries - ? WHERE ${HELD}`,
    release: `UPDATE ${message} SET due_at = 0 - priority, nonce = NULL, releases = releases + 1,
        deliveries = deliveries - (releases < ?) WHERE ${HELD}`,
    checkpoint: `UPDATE ${message} SET checkpoint = ?, releases = 0 WHERE ${HELD}`,

    findChosen: `SELECT ${STORED} FROM ${message} WHERE queue = ? AND id = ? AND chosen = 1`,
    // Dead letters may have the same id.
    scanGenerated: `SELECT ${STORED} FROM ${byDue} WHERE queue = ? AND id = ? AND chosen = 0
      ORDER BY nonce IS NOT NULL, seq LIMIT 1`,
    // The sign keeps SQLite from using the index of queues.
    findGenerated: `SELECT ${STORED} FROM ${message} WHERE id = ? AND +queue = ? AND chosen = 0
      ORDER BY nonce IS NOT NULL, seq LIMIT 1`,
    hasIdIndex:
      `SELECT 1 FROM sqlite_schema WHERE type = 'index' AND name = '${prefix}generated_id'`,
    remove: `DELETE FROM ${message} WHERE seq = ?`,
    addCancelled: `INSERT INTO ${cancelled} (queue, id, at) VALUES (?, ?, ?)`,
    pruneCancelled: `DELETE FROM ${cancelled} WHERE number IN (
        SELECT number FROM ${cancelled} WHERE at < ? ORDER BY number LIMIT ?)`,
    lastCancelled: `SELECT max(number) AS number FROM ${cancelled}`,
    cancelledSince: `SELECT number, id FROM ${cancelled}
      WHERE number > ? AND queue = ? ORDER BY number`,

    // SQLite merges the ranges, which the index has in order; only the hidden messages are sorted. Most
    // messages are in the last range, which costs the least to merge.
    peek: `SELECT ${STORED} FROM ${message} WHERE seq IN (
        ${oldestOf(`due_at > 0 AND due_at < ${BLOCKED}`)} UNION ALL ${
      IN_ORDER.toReversed().map((range) => `SELECT seq FROM ${byDue} WHERE queue = ? AND ${range}`)
        .join(" UNION ALL ")
    } ORDER BY seq LIMIT ? OFFSET ?) ORDER BY seq`,
    hidden: `SELECT count(*) AS hidden, count(nonce) AS leased FROM ${byDue}
      WHERE queue = ? AND due_at > ? AND due_at < ${BLOCKED}`,
    oldestWaiting: `SELECT min(enqueued_at) AS at FROM ${message}
      WHERE seq IN (${oldestOf(...IN_ORDER)}
        UNION ALL SELECT min(seq) FROM ${byDue} WHERE queue = ? AND due_at > 0 AND due_at <= ?)`,

    count: `SELECT size FROM ${queue} WHERE name = ?`,
    addToCount: `INSERT INTO ${queue} (name, size) VALUES (?, ?)
      ON CONFLICT (name) DO UPDATE SET size = size + excluded.size`,
    resetCount: `UPDATE ${queue} SET size = 0 WHERE name = ?`,
    control: `SELECT state FROM ${control} WHERE queue = ?`,
    setControl: `INSERT INTO ${control} (queue, state) VALUES (?, ?)
      ON CONFLICT (queue) DO UPDATE SET state = excluded.state`,
    dropControl: `DELETE FROM ${control} WHERE queue = ?`,
    queues: `SELECT name FROM ${queue} WHERE substr(name, -5) <> '.dead' ORDER BY name`,

    owners: `SELECT token FROM ${owner}`,
    addOwner: `INSERT INTO ${owner} (number, token) VALUES (?, ?) ON CONFLICT DO NOTHING`,
    findOwner: `SELECT number FROM ${owner} WHERE token = ?`,
    removeOwner: `DELETE FROM ${owner} WHERE token = ?`,
    // Of the hidden messages that are due first, it counts all and those that another owner leases.
    inFlight: `SELECT count(*) AS hidden, count(nullif(nonce >> ${NONCE_BITS}, ?)) AS leased FROM (
        SELECT nonce FROM ${byDue} WHERE queue = ? AND due_at > 0 AND due_at < ${BLOCKED}
          ORDER BY due_at LIMIT ?)`,
    // The message of a key stays the first of its line: it has a position, and those behind it are blocked.
    expireLeases: `UPDATE ${byDue} SET due_at = 0 - priority, expiries = expiries + 1, nonce = NULL
      WHERE queue = ? AND due_at > 0 AND due_at < ${BLOCKED} AND nonce >> ${NONCE_BITS} = ?`,
    allQueues: `SELECT name FROM ${queue}`,

    purge: `DELETE FROM ${message} WHERE queue = ?`,
    forgetAll: `DELETE FROM ${remembered} WHERE queue = ?`,
    dropCancelled: `DELETE FROM ${cancelled} WHERE queue = ?`,
    dropQueue: `DELETE FROM ${queue} WHERE name = ?`,

    dataVersion: "PRAGMA data_version",
  };
}

/** The name of a statement. */
export type StatementName = keyof ReturnType<typeof sqlOf>;

/** All statements, prepared. */
export type Statements = Readonly<Record<StatementName, SqliteStatement>>;

const texts = new Map<string, Readonly<Record<StatementName, string>>>();

/** Returns the text of all statements on tables whose names begin with `prefix`. */
export function statementTexts(prefix: string): Readonly<Record<StatementName, string>> {
  const found = texts.get(prefix) ?? sqlOf(prefix);
  texts.set(prefix, found);
  return found;
}

/** Prepares all statements. */
export function prepareAll(database: SqliteDatabase, prefix: string): Statements {
  const prepared = Object.entries(statementTexts(prefix))
    .map(([name, sql]) => [name, database.prepare(sql)]);
  return Object.fromEntries(prepared) as Statements;
}
