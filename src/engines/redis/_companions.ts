import { nextTurn } from "../../clock.ts";
import { haveTried, isSettled, naming, type RedisDelivery, type Settled } from "./_delivery.ts";

/** More than these would hold up what the pull answers: they go by themselves, while that is worked on. */
const MOST = 20;

/** Who was given to a pull to be acknowledged, and is told what came of it. */
interface Companion {
  readonly deliveries: readonly RedisDelivery[];
  resolve(results: boolean[]): void;
  reject(error: unknown): void;
}

/**
 * Acknowledgements that travel with a pull. Whoever works on one message after another acknowledges the
 * last one and asks for the next in the same turn: in one call that costs half as much. What no pull takes
 * along at the end of the turn goes alone.
 */
export class Companions {
  readonly #settle: (deliveries: readonly RedisDelivery[]) => Promise<boolean[]>;
  #pulls = 0;
  #waiting: Companion[] = [];

  /** `settle` acknowledges without a pull. */
  constructor(settle: (deliveries: readonly RedisDelivery[]) => Promise<boolean[]>) {
    this.#settle = settle;
  }

  /** Acknowledges these, with a pull or without. */
  acknowledge(deliveries: readonly RedisDelivery[]): Promise<boolean[]> {
    if (deliveries.length > MOST) return this.#settle(deliveries);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ deliveries, resolve, reject });
      if (this.#waiting.length === 1) void this.#leaveAlone();
    });
  }

  /** Makes a pull at the end of this turn, with the arguments for those that it takes along. */
  async travel<T extends { readonly settled: Settled; readonly nowUs: number }>(
    pull: (args: readonly string[]) => Promise<T>,
  ): Promise<T> {
    this.#pulls++;
    await nextTurn();
    this.#pulls--;
    const companions = this.#waiting.splice(0);
    try {
      const answer = await pull(acknowledgement(companions.flatMap((it) => it.deliveries)));
      let first = 0;
      for (const { deliveries, resolve } of companions) {
        const { settled, nowUs } = answer;
        resolve(deliveries.map((it, i) => isSettled("acknowledge", settled, first + i, it, nowUs)));
        first += deliveries.length;
      }
      return answer;
    } catch (error) {
      for (const { deliveries, reject } of companions) {
        haveTried("acknowledge", deliveries);
        reject(error);
      }
      throw error;
    }
  }

  async #leaveAlone(): Promise<void> {
    await nextTurn();
    if (this.#pulls > 0) return; // it takes them along, in this very turn
    const companions = this.#waiting.splice(0);
    try {
      const results = await this.#settle(companions.flatMap(({ deliveries }) => deliveries));
      for (const { deliveries, resolve } of companions) {
        resolve(results.splice(0, deliveries.length));
      }
    } catch (error) {
      for (const { reject } of companions) reject(error);
    }
  }
}

/** The arguments that acknowledge these: their names, and the numbers of those that have chosen ids. */
export function acknowledgement(deliveries: readonly RedisDelivery[]): string[] {
  if (deliveries.length === 0) return [];
  const args = [naming(deliveries)];
  for (const { dedup, seq, chosenId } of deliveries) if (dedup) args.push(seq, chosenId);
  return args;
}
