/**
 * What of a NATS client is used. The connections of `@nats-io/transport-node` and its relatives for
 * other runtimes fit as they are.
 *
 * @module
 */

/** A connection to a server, or to a cluster of them. */
export interface NatsConnection {
  /** What the server said of itself when it was connected to last. */
  readonly info?:
    | { readonly max_payload?: number | undefined; readonly jetstream?: boolean | undefined }
    | undefined;
  /** Sends a message; it is on its way when this returns. */
  publish(
    subject: string,
    payload?: Uint8Array | string,
    options?: { readonly reply?: string },
  ): void;
  /** Listens to a subject. */
  subscribe(subject: string, options?: NatsSubscribeOptions): NatsSubscription;
  /** Tells of `disconnect`, `reconnect` and `close`. */
  status(): AsyncIterable<{ readonly type: string }>;
  /** True when it is closed for good. */
  isClosed(): boolean;
  /** Ends the connection. */
  close(): Promise<void>;
}

/** Options of {@linkcode NatsConnection.subscribe}. */
export interface NatsSubscribeOptions {
  /** The subscription ends after so many messages. */
  readonly max?: number;
  /** Gets every message. */
  readonly callback?: (error: Error | null, message: NatsMessage) => void;
}

/** What listens to a subject. */
export interface NatsSubscription {
  /** Ends it at once; what is on its way is lost. */
  unsubscribe(): void;
  /** Ends it after everything that is on its way has come. */
  drain(): Promise<void>;
}

/** A message as the client hands it over. */
export interface NatsMessage {
  /** Where it was published. */
  readonly subject: string;
  /** Where an answer is expected. */
  readonly reply?: string | undefined;
  /** The payload, as it came. */
  readonly data: Uint8Array;
  /** A server's own messages have a code there. */
  readonly headers?:
    | { readonly code: number; readonly description: string }
    | undefined;
}
