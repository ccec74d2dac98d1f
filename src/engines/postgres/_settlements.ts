import type { Delivery, MessageState } from "../../mailbox/engine.ts";
import type { SqlParameter, SqlRow } from "./client.ts";
import { arrayLiteral, type Statements } from "./_statements.ts";

/** A message as the statements return it. Names of one word survive the name transforms of a client. */
export interface Row {
  readonly number: string;
  readonly id: string;
  readonly body: string;
  readonly meta: string | null;
  readonly count: number;
  readonly enqueued: number;
  readonly checkpoint: string | null;
  /**
   * Only a receive returns these. `line` is the key of the message, `now` the time of the receive, and
   * `expired` the number of expired leases.
   */
  readonly priority?: number;
  readonly line?: string | null;
  readonly now?: number;
  readonly expired?: number | null;
  /** Only `peek` and `find` return it. */
  readonly state?: MessageState;
}

/** A message that was read from the table. All deliveries of one receive share a nonce. */
export class PostgresDelivery implements Delivery<string> {
  /** The number of its row. */
  readonly number: string;
  readonly nonce: string;
  readonly id: string;
  readonly body: string;
  readonly meta: string | undefined;
  readonly deliveryCount: number;
  readonly leaseExpiries: number;
  readonly enqueuedAt: number;
  readonly checkpoint: string | undefined;
  readonly state: MessageState | undefined;
  /** The key of the message: the settlement has to unblock it. */
  readonly line: string | undefined;
  /** True after a transaction of the caller acknowledged it. The row may be locked until its end. */
  inTransaction = false;
  /**
   * The settlement whose reply was lost; the server may have run it. It is an action and not a statement: a
   * message without a key is acknowledged by either statement, alone or with messages that have one.
   */
  unanswered: string | undefined;

  constructor(row: Row, nonce: string) {
    this.number = String(row.number);
    this.nonce = nonce;
    this.id = row.id;
    this.body = row.body;
    this.meta = row.meta ?? undefined;
    this.deliveryCount = Number(row.count);
    this.leaseExpiries = Number(row.expired ?? 0);
    this.enqueuedAt = Math.floor(Number(row.enqueued));
    this.checkpoint = row.checkpoint ?? undefined;
    this.state = row.state;
    this.line = row.line ?? undefined;
  }

  get receiptHandle(): string {
    return `${this.number}-${this.nonce}`;
  }
}

/** Runs a statement of the schema. */
export type Call = (
  statement: keyof Statements,
  action: string,
  parameters: SqlParameter[],
) => Promise<readonly SqlRow[]>;

/** The statements that need a valid receipt handle. */
export type Settlement =
  | "acknowledge"
  | "acknowledgeKeyed"
  | "extend"
  | "extendUnlocked"
  | "nack"
  | "release"
  | "deadLetter"
  | "deadLetterKeyed"
  | "checkpoint";

/**
 * Settles deliveries by their receipt handles.
 *
 * When the connection breaks, the server may or may not have run the settlement. The delivery records it.
 * If the caller repeats the settlement and the receipt handle is used up, the table shows whether the first
 * attempt succeeded.
 */
export class Settlements {
  readonly #call: Call;

  constructor(call: Call) {
    this.#call = call;
  }

  /** Returns for each delivery whether its receipt handle was valid, or the same settlement had used it up. */
  async run(
    settlement: Settlement,
    deliveries: readonly Delivery<string>[],
    ...parameters: SqlParameter[]
  ): Promise<boolean[]> {
    const own = deliveries as readonly PostgresDelivery[];
    if (new Set(own.map(({ number }) => number)).size < own.length) {
      // The reply identifies messages, so two deliveries of one message need separate calls.
      const each = own.map((delivery) => this.run(settlement, [delivery], ...parameters));
      return (await Promise.all(each)).flat();
    }
    const { action, keeps, removes } = KINDS[settlement];
    let rows: readonly SqlRow[];
    try {
      rows = await this.#call(settlement, action, [...handlesOf(own), ...parameters]);
    } catch (error) {
      if (!keeps) { for (const delivery of own) delivery.unanswered = action; }
      throw error;
    }
    const settled = new Set(rows.map(({ number }) => String(number)));
    const uncertain = own.filter(({ number, unanswered }) => {
      return unanswered === action && !settled.has(number);
    });
    if (uncertain.length > 0) {
      const current = await this.#nonces(action, uncertain);
      const applied = uncertain.filter((it) => wasApplied(removes, it, current.get(it.number)));
      for (const { number } of applied) settled.add(number);
    }
    return own.map(({ number }) => settled.has(number));
  }

  /** Extends leases. Does not wait for a transaction of the caller that has acknowledged a message. */
  async extend(deliveries: readonly PostgresDelivery[], visibilityMs: number): Promise<boolean[]> {
    const areLocked = deliveries.map(({ inTransaction }) => inTransaction);
    const extend = (locked: boolean) => {
      const some = deliveries.filter((_, i) => areLocked[i] === locked);
      const settlement = locked ? "extendUnlocked" : "extend";
      return some.length === 0 ? [] : this.run(settlement, some, `${visibilityMs}`);
    };
    const results = await Promise.all([extend(false), extend(true)]);
    return areLocked.map((locked) => results[Number(locked)]!.shift()!);
  }

  /** Returns the current nonces of the messages that still exist, by number. */
  async #nonces(
    action: string,
    deliveries: readonly PostgresDelivery[],
  ): Promise<ReadonlyMap<string, string | null>> {
    const rows = await this.#call("nonces", action, [handlesOf(deliveries)[0]]);
    return new Map(rows.map(({ number, nonce }) => [String(number), nonce as string | null]));
  }
}

/** What each statement does. */
const KINDS: Readonly<
  Record<Settlement, {
    readonly action: string;
    /** True when the receipt handle stays valid, so that a repetition needs no check. */
    readonly keeps?: true;
    /** True when the message is gone afterwards. */
    readonly removes?: true;
  }>
> = {
  acknowledge: { action: "acknowledge", removes: true },
  acknowledgeKeyed: { action: "acknowledge", removes: true },
  extend: { action: "extend", keeps: true },
  extendUnlocked: { action: "extend", keeps: true },
  nack: { action: "nack" },
  release: { action: "release" },
  deadLetter: { action: "dead-letter", removes: true },
  deadLetterKeyed: { action: "dead-letter", removes: true },
  checkpoint: { action: "checkpoint", keeps: true },
};

/** Returns the first two parameters of a settlement: the numbers of the rows, and the nonces. */
export function handlesOf(
  deliveries: readonly PostgresDelivery[],
): [numbers: string, nonces: string] {
  return [
    arrayLiteral(deliveries.map(({ number }) => number)),
    arrayLiteral(deliveries.map(({ nonce }) => nonce)),
  ];
}

/** Returns the different keys of the messages; none when no message has a key. */
export function keysOf(deliveries: readonly PostgresDelivery[]): string[] {
  return [...new Set(deliveries.flatMap(({ line }) => line ?? []))];
}

/**
 * Returns true when the server ran a settlement whose reply was lost. `current` is the nonce that the
 * message has now; undefined when the message is gone. A released message may have been received again.
 */
function wasApplied(
  removes: boolean | undefined,
  { nonce }: PostgresDelivery,
  current: string | null | undefined,
): boolean {
  return current === undefined || !removes && current !== nonce;
}
