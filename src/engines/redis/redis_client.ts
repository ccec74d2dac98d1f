/**
 * The part of a Redis client that a mailbox uses. `Redis` and `Cluster` of `ioredis` have this shape.
 *
 * @module
 */

/** A connection for commands. */
export interface RedisClient {
  /** Runs a script by the SHA-1 of its text. */
  evalsha(sha: string, numberOfKeys: number, ...args: (string | number)[]): Promise<unknown>;
  /** Runs a script by its text. */
  eval(script: string, numberOfKeys: number, ...args: (string | number)[]): Promise<unknown>;
  /** Creates another connection to the same server, with changed client options. */
  duplicate(options?: object): RedisSubscriber;
}

/** A connection for notifications. */
export interface RedisSubscriber {
  /** Subscribes to channels. */
  subscribe(...channels: string[]): Promise<unknown>;
  /** Unsubscribes from channels. */
  unsubscribe(...channels: string[]): Promise<unknown>;
  /** Adds a listener for `message` (channel, text), `ready` (after every connect), `close`, `error` or `end`. */
  // deno-lint-ignore no-explicit-any -- the arguments depend on the event
  on(event: string, listener: (...args: any[]) => void): unknown;
  /** Closes the connection. */
  disconnect(): void;
}
