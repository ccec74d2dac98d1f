import { type Calls, noResponders } from "./_calls.ts";
import { NO_RESPONDERS } from "./_errors.ts";
import type { NatsConnection } from "./nats_connection.ts";

const encoder = new TextEncoder();

/** Acknowledges: the server removes the message. */
export const ACK: Uint8Array = encoder.encode("+ACK");

/** Makes the message visible immediately. */
export const NAK: Uint8Array = encoder.encode("-NAK");

/**
 * Makes the message visible after `ms`. Until then the same receiver can still acknowledge it, so a
 * delayed NAK works as a lease of any length.
 */
export function nakAfter(ms: number): Uint8Array {
  return encoder.encode(`-NAK {"delay": ${Math.ceil(ms * 1_000)}000}`);
}

export interface Ackable {
  readonly ackSubject: string;
}

/** Publishes acknowledgements and negative acknowledgements. */
export class Acks {
  readonly #connection: NatsConnection;
  readonly #calls: Calls;

  constructor(connection: NatsConnection, calls: Calls) {
    this.#connection = connection;
    this.#calls = calls;
  }

  /**
   * Publishes one ack per delivery and resolves when the server has processed all of them. A consumer
   * processes the acks of one connection in order, so only the last one asks for an answer.
   */
  async publishConfirmed<S extends Ackable>(
    what: string,
    deliveries: readonly S[],
    ack: (delivery: S) => Uint8Array,
  ): Promise<void> {
    const last = deliveries.at(-1);
    if (last === undefined) return;
    let noConsumer = false;
    await this.#calls.run(what, (reply) => {
      for (const delivery of deliveries) {
        const options = delivery === last ? { reply } : undefined;
        this.#connection.publish(delivery.ackSubject, ack(delivery), options);
      }
    }, {
      onAnswer: ({ headers }) => {
        noConsumer = headers?.code === NO_RESPONDERS;
        return true;
      },
    });
    if (noConsumer) throw noResponders(what);
  }

  /** Publishes one ack per delivery without waiting for an answer. */
  publish<S extends Ackable>(deliveries: readonly S[], ack: (delivery: S) => Uint8Array): void {
    for (const delivery of deliveries) {
      this.#connection.publish(delivery.ackSubject, ack(delivery));
    }
  }
}
