import type { Log } from "../../log.ts";
import { withoutCommand } from "./_errors.ts";
import type { RedisClient, RedisSubscriber } from "./redis_client.ts";

/** One connection for all that listens on a client; a client's mailboxes have only the client in common. */
const shared = new WeakMap<RedisClient, WakeChannels>();

/**
 * The channels on which mailboxes tell that messages have come, on one connection of their own: a
 * connection that listens can do nothing else. It is there from the first listener on until the last
 * mailbox of the client is closed.
 *
 * A notification may be lost while the connection is. So whenever it is there again, and whenever a
 * channel was joined or could not be, the listeners are woken: whatever came before that, they find themselves.
 *
 * A channel that cannot be joined, because the user may not listen or the connection broke, is joined
 * again with the next connection and with the next listener. Until then its listeners depend on their
 * fallback poll, which one warning says.
 */
export class WakeChannels {
  readonly #client: RedisClient;
  readonly #log: Log;
  readonly #listeners = new Map<string, Set<() => void>>();
  /** The channels that could not be joined. */
  readonly #deaf = new Set<string>();
  #users = 0;
  #subscriber: RedisSubscriber | undefined;

  private constructor(client: RedisClient, log: Log) {
    this.#client = client;
    this.#log = log;
  }

  /** The channels of this client. Whoever asks for them leaves them in the end. */
  static enter(client: RedisClient, log: Log): WakeChannels {
    const channels = shared.get(client) ?? new WakeChannels(client, log);
    shared.set(client, channels);
    channels.#users++;
    return channels;
  }

  /** Ends the connection when nobody is left, and what nobody listens to in any case. */
  leave(): void {
    if (--this.#users > 0) return this.#part();
    shared.delete(this.#client);
    this.#listeners.clear();
    this.#deaf.clear();
    this.#subscriber?.disconnect();
    this.#subscriber = undefined;
  }

  /** Calls `listener` whenever something is told on the channel, or may have been. */
  listen(channel: string, listener: () => void): () => void {
    const own = () => listener();
    const listeners = this.#listeners.get(channel);
    if (listeners === undefined) {
      this.#listeners.set(channel, new Set([own]));
      this.#join([channel]);
    } else {
      listeners.add(own);
      if (this.#deaf.has(channel)) this.#join([channel]);
    }
    return () => void this.#listeners.get(channel)?.delete(own);
  }

  /**
   * A channel stays joined while it is used every now and then: to join takes a round trip. Each is joined
   * by itself, because a user may be allowed to listen to one and not to another.
   */
  #join(channels: readonly string[]): void {
    for (const channel of channels) {
      this.#connect().subscribe(channel).then(
        () => this.#deaf.delete(channel),
        (error) => this.#couldNotJoin(channel, withoutCommand(error)),
      ).then(() => this.#wake(channel));
    }
  }

  /** Once for each channel, until it was joined again. */
  #couldNotJoin(channel: string, error: unknown): void {
    if (!this.#listeners.has(channel) || this.#deaf.has(channel)) return;
    this.#deaf.add(channel);
    this.#log.warn(
      `cannot listen for messages on the Redis channel "${channel}"; receivers look for them at their ` +
        "poll interval until it works again. Check that the user may SUBSCRIBE to it",
      { channel, error },
    );
  }

  /** Whoever of the others comes back to a channel joins it again. */
  #part(): void {
    const quiet = [...this.#listeners].filter(([, listeners]) => listeners.size === 0);
    if (quiet.length === 0) return;
    for (const [channel] of quiet) {
      this.#listeners.delete(channel);
      this.#deaf.delete(channel);
    }
    this.#connect().unsubscribe(...quiet.map(([channel]) => channel)).catch((error) => {
      this.#log.debug("could not stop listening for messages on Redis", { error });
    });
  }

  #connect(): RedisSubscriber {
    if (this.#subscriber !== undefined) return this.#subscriber;
    // The client's own way to listen again after a reconnect ends the process when it is refused.
    const subscriber = this.#subscriber = this.#client.duplicate({ autoResubscribe: false });
    subscriber.on("error", (error) => {
      this.#log.debug("the connection that listens for messages on Redis failed", {
        error: withoutCommand(error),
      });
    });
    subscriber.on("message", (channel: string) => this.#wake(channel));
    // Whoever waits finds out what is the matter, and does not believe that all is quiet.
    subscriber.on("close", () => this.#wakeAll());
    subscriber.on("ready", () => {
      if (this.#subscriber === subscriber) this.#join([...this.#listeners.keys()]);
    });
    return subscriber;
  }

  #wakeAll(): void {
    for (const channel of [...this.#listeners.keys()]) this.#wake(channel);
  }

  #wake(channel: string): void {
    for (const listener of this.#listeners.get(channel) ?? []) listener();
  }
}
