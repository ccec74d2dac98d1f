import { type Calls, noResponders } from "./_calls.ts";
import { NO_RESPONDERS } from "./_errors.ts";
import type { NatsConnection } from "./nats_connection.ts";

const encoder = new TextEncoder();

/** It is done: the server removes it. */
export const DONE: Uint8Array = encoder.encode("+ACK");

/** It is there for others at once. */
export const BACK: Uint8Array = encoder.encode("-NAK");

/**
 * It stays with whoever has it and is there for others after `ms`. JetStream calls this a refusal with a
 * delay; but until then it can still be acknowledged, which makes it a lease of any length.
 */
export function backIn(ms: number): Uint8Array {
  return encoder.encode(`-NAK {"delay": ${Math.ceil(ms * 1_000)}000}`);
}

/** What is settled. */
export interface Settled {
  readonly ackSubject: string;
}

/** What is said about deliveries. */
export class Verdicts {
  readonly #connection: NatsConnection;
  readonly #calls: Calls;

  constructor(connection: NatsConnection, calls: Calls) {
    this.#connection = connection;
    this.#calls = calls;
  }

  /**
   * Resolves when the server has heard it about all. A consumer hears a connection's verdicts in their
   * order, so the answer to the last one speaks for those before it.
   */
  async confirm<S extends Settled>(
    what: string,
    deliveries: readonly S[],
    verdict: (delivery: S) => Uint8Array,
  ): Promise<void> {
    const last = deliveries.at(-1);
    if (last === undefined) return;
    let unheard = false;
    await this.#calls.run(what, (reply) => {
      for (const delivery of deliveries) {
        const options = delivery === last ? { reply } : undefined;
        this.#connection.publish(delivery.ackSubject, verdict(delivery), options);
      }
    }, {
      onAnswer: ({ headers }) => {
        unheard = headers?.code === NO_RESPONDERS;
        return true;
      },
    });
    if (unheard) throw noResponders(what);
  }

  /** Says it and does not wait. */
  say<S extends Settled>(deliveries: readonly S[], verdict: (delivery: S) => Uint8Array): void {
    for (const delivery of deliveries) {
      this.#connection.publish(delivery.ackSubject, verdict(delivery));
    }
  }
}
