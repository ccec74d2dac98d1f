import type { NatsConnection, NatsMessage, NatsSubscription } from "./nats_connection.ts";

/** So many that went wrong are kept for what may still come. */
const MAX_RETIRED = 8;

/** A place that messages are delivered to, for one request at a time. */
export interface Lane {
  readonly inbox: string;
  readonly subscription: NatsSubscription;
  hear: (message: NatsMessage) => void;
}

/**
 * Where messages of a stream are delivered to. They come under their own subjects, which do not tell what
 * they answer; so each request has a subscription for itself, and leaves it to the next one.
 */
export class Lanes {
  readonly #connection: NatsConnection;
  readonly #inboxPrefix: string;
  readonly #free: Lane[] = [];
  readonly #retired: Lane[] = [];
  readonly #all = new Set<Lane>();

  constructor(connection: NatsConnection, inboxPrefix: string) {
    this.#connection = connection;
    this.#inboxPrefix = inboxPrefix;
  }

  borrow(): Lane {
    return this.#free.pop() ?? this.#make();
  }

  /** Nothing more can come on it. */
  giveBack(lane: Lane): void {
    if (this.#all.has(lane)) this.#free.push(lane);
  }

  /** Something may still come on it. */
  retire(lane: Lane): void {
    this.#retired.push(lane);
    if (this.#retired.length > MAX_RETIRED) this.#end(this.#retired.shift()!);
  }

  close(): void {
    for (const lane of this.#all) this.#end(lane);
  }

  #make(): Lane {
    const inbox = `${this.#inboxPrefix}.${crypto.randomUUID()}`;
    const subscription = this.#connection.subscribe(inbox, {
      callback: (error, message) => error ?? lane.hear(message),
    });
    const lane: Lane = { inbox, subscription, hear: () => {} };
    this.#all.add(lane);
    return lane;
  }

  #end(lane: Lane): void {
    this.#all.delete(lane);
    if (!this.#connection.isClosed()) lane.subscription.unsubscribe();
  }
}
