import { nextTurn } from "../../clock.ts";
import {
  encodeReceipts,
  isSettled,
  markAttempted,
  type RedisDelivery,
  type Settled,
} from "./_delivery.ts";

/** A larger acknowledgement goes alone: it would delay the reply of the pull. */
const MAX_DELIVERIES = 20;

/** One call of `acknowledge` that waits for its result. */
interface PendingAck {
  readonly deliveries: readonly RedisDelivery[];
  resolve(results: boolean[]): void;
  reject(error: unknown): void;
}

/**
 * Sends acknowledgements together with a pull. A worker that handles one message at a time acknowledges it
 * and asks for the next in the same turn of the event loop; one call for both costs half as much.
 * Acknowledgements that find no pull by the end of the turn go alone.
 */
export class PiggybackedAcks {
  readonly #settle: (deliveries: readonly RedisDelivery[]) => Promise<boolean[]>;
  #pulls = 0;
  #pending: PendingAck[] = [];

  /** `settle` acknowledges without a pull. */
  constructor(settle: (deliveries: readonly RedisDelivery[]) => Promise<boolean[]>) {
    this.#settle = settle;
  }

  /** Acknowledges with the next pull of this turn, or alone. Resolves with one result per delivery. */
  acknowledge(deliveries: readonly RedisDelivery[]): Promise<boolean[]> {
    if (deliveries.length > MAX_DELIVERIES) return this.#settle(deliveries);
    return new Promise((resolve, reject) => {
      this.#pending.push({ deliveries, resolve, reject });
      if (this.#pending.length === 1) void this.#sendAlone();
    });
  }

  /** Runs `pull` at the end of this turn, with the arguments that acknowledge the pending deliveries. */
  async pullWith<T extends { readonly settled: Settled; readonly nowUs: number }>(
    pull: (args: readonly string[]) => Promise<T>,
  ): Promise<T> {
    this.#pulls++;
    await nextTurn();
    this.#pulls--;
    const acks = this.#pending.splice(0);
    try {
      const answer = await pull(ackArguments(acks.flatMap((it) => it.deliveries)));
      let first = 0;
      for (const { deliveries, resolve } of acks) {
        const { settled, nowUs } = answer;
        resolve(deliveries.map((it, i) => isSettled("acknowledge", settled, first + i, it, nowUs)));
        first += deliveries.length;
      }
      return answer;
    } catch (error) {
      for (const { deliveries, reject } of acks) {
        markAttempted("acknowledge", deliveries);
        reject(error);
      }
      throw error;
    }
  }

  async #sendAlone(): Promise<void> {
    await nextTurn();
    if (this.#pulls > 0) return; // a pull of this turn sends them
    const acks = this.#pending.splice(0);
    try {
      const results = await this.#settle(acks.flatMap(({ deliveries }) => deliveries));
      for (const { deliveries, resolve } of acks) {
        resolve(results.splice(0, deliveries.length));
      }
    } catch (error) {
      for (const { reject } of acks) reject(error);
    }
  }
}

/** Returns the script arguments that acknowledge: the receipts, then number and id of each chosen id. */
export function ackArguments(deliveries: readonly RedisDelivery[]): string[] {
  if (deliveries.length === 0) return [];
  const args = [encodeReceipts(deliveries)];
  for (const { dedup, seq, chosenId } of deliveries) if (dedup) args.push(seq, chosenId);
  return args;
}
