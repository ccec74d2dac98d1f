import type { NatsConnection, NatsMessage, NatsSubscription } from "./nats_connection.ts";

/** How many inboxes of failed requests stay subscribed for late messages. */
const MAX_RETIRED = 8;

/** A subscription that serves one request at a time. */
export interface Inbox {
  readonly subject: string;
  readonly subscription: NatsSubscription;
  onMessage: (message: NatsMessage) => void;
}

/**
 * A pool of subscriptions for receive requests. Messages arrive with the subject they were stored under,
 * which does not name the request, so concurrent requests need separate subscriptions.
 */
export class Inboxes {
  readonly #connection: NatsConnection;
  readonly #inboxPrefix: string;
  readonly #free: Inbox[] = [];
  readonly #retired: Inbox[] = [];
  readonly #all = new Set<Inbox>();

  constructor(connection: NatsConnection, inboxPrefix: string) {
    this.#connection = connection;
    this.#inboxPrefix = inboxPrefix;
  }

  acquire(): Inbox {
    return this.#free.pop() ?? this.#create();
  }

  /** Returns an inbox to the pool. Call it only when no more messages can arrive. */
  release(inbox: Inbox): void {
    if (this.#all.has(inbox)) this.#free.push(inbox);
  }

  /** Takes an inbox out of use that may still get messages. */
  retire(inbox: Inbox): void {
    this.#retired.push(inbox);
    if (this.#retired.length > MAX_RETIRED) this.#unsubscribe(this.#retired.shift()!);
  }

  close(): void {
    for (const inbox of this.#all) this.#unsubscribe(inbox);
  }

  #create(): Inbox {
    const subject = `${this.#inboxPrefix}.${crypto.randomUUID()}`;
    const subscription = this.#connection.subscribe(subject, {
      callback: (error, message) => error ?? inbox.onMessage(message),
    });
    const inbox: Inbox = { subject, subscription, onMessage: () => {} };
    this.#all.add(inbox);
    return inbox;
  }

  #unsubscribe(inbox: Inbox): void {
    this.#all.delete(inbox);
    if (!this.#connection.isClosed()) inbox.subscription.unsubscribe();
  }
}
