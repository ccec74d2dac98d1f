import type { Delivery } from "../../mailbox/engine.ts";
import type { SqlParameter, SqlRow } from "./client.ts";
import { arrayLiteral, type Statements } from "./_statements.ts";

/** A message as the statements return it. Names of one word survive the name transforms of a client. */
export interface Row {
  readonly key: string;
  readonly id: string;
  readonly body: string;
  readonly meta: string | null;
  readonly count: number;
  readonly enqueued: number;
  readonly checkpoint: string | null;
}

/** A message that was read from the table. All deliveries of one receive share a nonce. */
export class PostgresDelivery implements Delivery<string> {
  readonly key: string;
  readonly nonce: string;
  readonly id: string;
  readonly body: string;
  readonly meta: string | undefined;
  readonly deliveryCount: number;
  readonly enqueuedAt: number;
  readonly checkpoint: string | undefined;
  /** The settlement whose reply was lost; the server may have run it. */
  unanswered: Settlement | undefined;

  constructor(row: Row, nonce: string) {
    this.key = String(row.key);
    this.nonce = nonce;
    this.id = row.id;
    this.body = row.body;
    this.meta = row.meta ?? undefined;
    this.deliveryCount = Number(row.count);
    this.enqueuedAt = Math.floor(Number(row.enqueued));
    this.checkpoint = row.checkpoint ?? undefined;
  }

  get receiptHandle(): string {
    return `${this.key}-${this.nonce}`;
  }
}

type Call = (
  statement: keyof Statements,
  action: string,
  parameters: SqlParameter[],
) => Promise<readonly SqlRow[]>;

/** The statements that need a valid receipt handle. */
export type Settlement =
  | "acknowledge"
  | "extend"
  | "nack"
  | "release"
  | "deadLetter"
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
    if (new Set(own.map(({ key }) => key)).size < own.length) {
      // The reply identifies messages, so two deliveries of one message need separate calls.
      const each = own.map((delivery) => this.run(settlement, [delivery], ...parameters));
      return (await Promise.all(each)).flat();
    }
    const action = settlement === "deadLetter" ? "dead-letter" : settlement;
    const nonces = arrayLiteral(own.map(({ nonce }) => nonce));
    let rows: readonly SqlRow[];
    try {
      rows = await this.#call(settlement, action, [keysOf(own), nonces, ...parameters]);
    } catch (error) {
      // These leave the receipt handle valid, so that a repetition needs no check.
      const keeps = settlement === "extend" || settlement === "checkpoint";
      if (!keeps) { for (const delivery of own) delivery.unanswered = settlement; }
      throw error;
    }
    const settled = new Set(rows.map(({ key }) => String(key)));
    const uncertain = own.filter(({ key, unanswered }) => {
      return unanswered === settlement && !settled.has(key);
    });
    if (uncertain.length > 0) {
      const current = await this.#nonces(action, uncertain);
      const applied = uncertain.filter((it) => wasApplied(settlement, it, current.get(it.key)));
      for (const { key } of applied) settled.add(key);
    }
    return own.map(({ key }) => settled.has(key));
  }

  /** Returns the current nonces of the messages that still exist, by key. */
  async #nonces(
    action: string,
    deliveries: readonly PostgresDelivery[],
  ): Promise<ReadonlyMap<string, string | null>> {
    const rows = await this.#call("nonces", action, [keysOf(deliveries)]);
    return new Map(rows.map(({ key, nonce }) => [String(key), nonce as string | null]));
  }
}

function keysOf(deliveries: readonly PostgresDelivery[]): string {
  return arrayLiteral(deliveries.map(({ key }) => key));
}

/**
 * Returns true when the server ran a settlement whose reply was lost. `current` is the nonce that the
 * message has now; undefined when the message is gone. A released message may have been received again.
 */
function wasApplied(
  settlement: Settlement,
  { nonce }: PostgresDelivery,
  current: string | null | undefined,
): boolean {
  const removes = settlement === "acknowledge" || settlement === "deadLetter";
  return current === undefined || !removes && current !== nonce;
}
