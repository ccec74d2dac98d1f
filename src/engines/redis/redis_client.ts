/**
 * What of a Redis client is used. The clients of `ioredis`, `Redis` and `Cluster`, fit as they are.
 *
 * @module
 */

/** A connection that commands are sent on. */
export interface RedisClient {
  /** Runs a script by the hash of its text. */
  evalsha(sha: string, numberOfKeys: number, ...args: (string | number)[]): Promise<unknown>;
  /** Runs a script by its text. */
  eval(script: string, numberOfKeys: number, ...args: (string | number)[]): Promise<unknown>;
  /** Makes another connection to the same server, with other options of the client. */
  duplicate(options?: object): RedisSubscriber;
}

/** A connection that notifications come on. */
export interface RedisSubscriber {
  /** Listens to channels. */
  subscribe(...channels: string[]): Promise<unknown>;
  /** Listens to channels no longer. */
  unsubscribe(...channels: string[]): Promise<unknown>;
  /** Tells of `message` (channel, text), `ready` after every connect, `close`, `error` and `end`. */
  // deno-lint-ignore no-explicit-any -- what a listener gets depends on the event
  on(event: string, listener: (...args: any[]) => void): unknown;
  /** Ends the connection. */
  disconnect(): void;
}
