import type { Delivery } from "../../mailbox/engine.ts";
import { arrayLiteral } from "./_array_literal.ts";
import type { SqlParameter, SqlRow } from "./client.ts";
import type { PostgresDelivery } from "./_delivery.ts";
import type { Statements } from "./_statements.ts";

type Call = (
  statement: keyof Statements,
  what: string,
  parameters: SqlParameter[],
) => Promise<readonly SqlRow[]>;

/** The statements that act on what a delivery holds. */
export type Settlement = "remove" | "extend" | "retry" | "release" | "bury" | "checkpoint";

/**
 * Settles deliveries by their receipts.
 *
 * A connection that breaks leaves open whether the server did what was asked. A delivery remembers such a
 * settlement. When the same one is asked for again and the receipt is used up, the table tells whether
 * the first one did it.
 */
export class Settlements {
  readonly #call: Call;

  constructor(call: Call) {
    this.#call = call;
  }

  /** Tells for each whether its receipt was still good, or was used up by the same settlement. */
  async run(
    statement: Settlement,
    what: string,
    deliveries: readonly Delivery<string>[],
    ...parameters: SqlParameter[]
  ): Promise<boolean[]> {
    const own = deliveries as readonly PostgresDelivery[];
    if (new Set(own.map(({ key }) => key)).size < own.length) {
      // The answer names messages: two deliveries of the same one could not be told apart.
      const each = own.map((delivery) => this.run(statement, what, [delivery], ...parameters));
      return (await Promise.all(each)).flat();
    }
    const nonces = arrayLiteral(own.map(({ nonce }) => nonce));
    let rows: readonly SqlRow[];
    try {
      rows = await this.#call(statement, what, [keysOf(own), nonces, ...parameters]);
    } catch (error) {
      // After these the message keeps its receipt: a repetition answers for itself.
      const keeps = statement === "extend" || statement === "checkpoint";
      if (!keeps) { for (const delivery of own) delivery.unanswered = statement; }
      throw error;
    }
    const settled = new Set(rows.map(({ key }) => String(key)));
    const doubtful = own.filter(({ key, unanswered }) => {
      return unanswered === statement && !settled.has(key);
    });
    if (doubtful.length > 0) {
      const left = await this.#receipts(what, doubtful);
      const happened = doubtful.filter((it) => hasHappened(statement, it, left.get(it.key)));
      for (const { key } of happened) settled.add(key);
    }
    return own.map(({ key }) => settled.has(key));
  }

  /** The receipts that these messages have now, of those that are still there. */
  async #receipts(
    what: string,
    deliveries: readonly PostgresDelivery[],
  ): Promise<ReadonlyMap<string, string | null>> {
    const rows = await this.#call("receipts", what, [keysOf(deliveries)]);
    return new Map(rows.map(({ key, receipt }) => [String(key), receipt as string | null]));
  }
}

function keysOf(deliveries: readonly PostgresDelivery[]): string {
  return arrayLiteral(deliveries.map(({ key }) => key));
}

/**
 * True when a settlement whose answer was lost has happened, by the receipt that the message has now;
 * undefined when it is not there. A message that was given back may have another receipt by now.
 */
function hasHappened(
  settlement: Settlement,
  { nonce }: PostgresDelivery,
  receipt: string | null | undefined,
): boolean {
  const removes = settlement === "remove" || settlement === "bury";
  return receipt === undefined || !removes && receipt !== nonce;
}
