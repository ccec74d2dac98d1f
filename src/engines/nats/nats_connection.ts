/**
 * The parts of a NATS client that the engine uses. The connections of `@nats-io/transport-node` and of
 * the packages for other runtimes have this shape.
 *
 * @module
 */

/** A connection to a server or a cluster. */
export interface NatsConnection {
  /** The information that the server sent at the last connect. */
  readonly info?:
    | { readonly max_payload?: number | undefined; readonly jetstream?: boolean | undefined }
    | undefined;
  /** Publishes a message without waiting. */
  publish(
    subject: string,
    payload?: Uint8Array | string,
    options?: { readonly reply?: string },
  ): void;
  /** Subscribes to a subject. */
  subscribe(subject: string, options?: NatsSubscribeOptions): NatsSubscription;
  /** Reports `disconnect`, `reconnect` and `close`. */
  status(): AsyncIterable<{ readonly type: string }>;
  /** Returns true when the connection is closed for good. */
  isClosed(): boolean;
  /** Closes the connection. */
  close(): Promise<void>;
}

/** Options of {@linkcode NatsConnection.subscribe}. */
export interface NatsSubscribeOptions {
  /** Ends the subscription after this many messages. */
  readonly max?: number;
  /** Called for every message. */
  readonly callback?: (error: Error | null, message: NatsMessage) => void;
}

/** A subscription to a subject. */
export interface NatsSubscription {
  /** Ends the subscription immediately. Messages in transit are lost. */
  unsubscribe(): void;
  /** Ends the subscription after all messages in transit have arrived. */
  drain(): Promise<void>;
}

/** A message as the client delivers it. */
export interface NatsMessage {
  /** The subject that the message was published to. */
  readonly subject: string;
  /** The subject that takes an answer. */
  readonly reply?: string | undefined;
  /** The payload. */
  readonly data: Uint8Array;
  /** Set on messages of the server itself; they have a status code. */
  readonly headers?:
    | { readonly code: number; readonly description: string }
    | undefined;
}
