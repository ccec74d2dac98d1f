import type { Delivery } from "../../mailbox/engine.ts";
import type { SqlParameter, SqlRow } from "./client.ts";
import type { PostgresDelivery } from "./_delivery.ts";
import { arrayLiteral, type Statements } from "./_statements.ts";

type Call = (
  statement: keyof Statements,
  action: string,
  parameters: SqlParameter[],
) => Promise<readonly SqlRow[]>;

/** The statements that need a valid receipt. */
export type Settlement = "remove" | "extend" | "retry" | "release" | "bury" | "checkpoint";

/**
 * Settles deliveries by their receipts.
 *
 * When the connection breaks, the server may or may not have run the settlement. The delivery records it.
 * If the caller repeats the settlement and the receipt is used up, the table shows whether the first
 * attempt succeeded.
 */
export class Settlements {
  readonly #call: Call;

  constructor(call: Call) {
    this.#call = call;
  }

  /** Returns for each delivery whether its receipt was valid, or the same settlement had used it up. */
  async run(
    statement: Settlement,
    action: string,
    deliveries: readonly Delivery<string>[],
    ...parameters: SqlParameter[]
  ): Promise<boolean[]> {
    const own = deliveries as readonly PostgresDelivery[];
    if (new Set(own.map(({ key }) => key)).size < own.length) {
      // The reply identifies messages, so two deliveries of one message need separate calls.
      const each = own.map((delivery) => this.run(statement, action, [delivery], ...parameters));
      return (await Promise.all(each)).flat();
    }
    const nonces = arrayLiteral(own.map(({ nonce }) => nonce));
    let rows: readonly SqlRow[];
    try {
      rows = await this.#call(statement, action, [keysOf(own), nonces, ...parameters]);
    } catch (error) {
      // These leave the receipt valid, so that a repetition needs no check.
      const keeps = statement === "extend" || statement === "checkpoint";
      if (!keeps) { for (const delivery of own) delivery.unanswered = statement; }
      throw error;
    }
    const settled = new Set(rows.map(({ key }) => String(key)));
    const uncertain = own.filter(({ key, unanswered }) => {
      return unanswered === statement && !settled.has(key);
    });
    if (uncertain.length > 0) {
      const current = await this.#receipts(action, uncertain);
      const applied = uncertain.filter((it) => wasApplied(statement, it, current.get(it.key)));
      for (const { key } of applied) settled.add(key);
    }
    return own.map(({ key }) => settled.has(key));
  }

  /** Returns the current receipts of the messages that still exist, by key. */
  async #receipts(
    action: string,
    deliveries: readonly PostgresDelivery[],
  ): Promise<ReadonlyMap<string, string | null>> {
    const rows = await this.#call("receipts", action, [keysOf(deliveries)]);
    return new Map(rows.map(({ key, receipt }) => [String(key), receipt as string | null]));
  }
}

function keysOf(deliveries: readonly PostgresDelivery[]): string {
  return arrayLiteral(deliveries.map(({ key }) => key));
}

/**
 * Returns true when the server ran a settlement whose reply was lost. `receipt` is the current one of the
 * message; undefined when the message is gone. A released message may have a new receipt by now.
 */
function wasApplied(
  settlement: Settlement,
  { nonce }: PostgresDelivery,
  receipt: string | null | undefined,
): boolean {
  const removes = settlement === "remove" || settlement === "bury";
  return receipt === undefined || !removes && receipt !== nonce;
}
