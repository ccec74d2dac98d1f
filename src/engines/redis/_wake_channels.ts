import type { Log } from "../../log.ts";
import { type RedisClient, type RedisSubscriber, withoutCommand } from "./redis_client.ts";

/** By client, because mailboxes of one client have nothing but the client in common. */
const shared = new WeakMap<RedisClient, WakeChannels>();

/**
 * The channels on which mailboxes announce new messages. They use one connection per client, because a
 * connection that subscribes cannot run other commands. It opens with the first listener and closes with
 * the last mailbox of the client.
 *
 * Notifications are lost while the connection is down. So the listeners are woken after every reconnect and
 * after every attempt to subscribe, and check for messages themselves.
 *
 * A subscription fails when the user lacks the permission or the connection breaks. It is repeated with the
 * next connection and with the next listener. Until then the listeners depend on their fallback poll, and
 * one warning says so.
 */
export class WakeChannels {
  readonly #client: RedisClient;
  readonly #log: Log;
  readonly #listeners = new Map<string, Set<() => void>>();
  /** The channels whose subscription failed. */
  readonly #failed = new Set<string>();
  #users = 0;
  #subscriber: RedisSubscriber | undefined;

  private constructor(client: RedisClient, log: Log) {
    this.#client = client;
    this.#log = log;
  }

  /** Returns the channels of this client. The caller has to call `release` in the end. */
  static acquire(client: RedisClient, log: Log): WakeChannels {
    const channels = shared.get(client) ?? new WakeChannels(client, log);
    shared.set(client, channels);
    channels.#users++;
    return channels;
  }

  /** Unsubscribes from channels without listeners, and closes the connection with the last user. */
  release(): void {
    if (--this.#users > 0) return this.#unsubscribeUnused();
    shared.delete(this.#client);
    this.#listeners.clear();
    this.#failed.clear();
    this.#subscriber?.disconnect();
    this.#subscriber = undefined;
  }

  /** Calls `listener` on every notification of the channel, and whenever one may have been lost. */
  listen(channel: string, listener: () => void): () => void {
    const own = () => listener();
    const listeners = this.#listeners.get(channel);
    if (listeners === undefined) {
      this.#listeners.set(channel, new Set([own]));
      this.#subscribe([channel]);
    } else {
      listeners.add(own);
      if (this.#failed.has(channel)) this.#subscribe([channel]);
    }
    return () => void this.#listeners.get(channel)?.delete(own);
  }

  /**
   * Subscribes to each channel by itself, because the user may have the permission for some only. A
   * subscription outlives its listeners, as a new one costs a round trip.
   */
  #subscribe(channels: readonly string[]): void {
    for (const channel of channels) {
      this.#connect().subscribe(channel).then(
        () => this.#failed.delete(channel),
        (error) => this.#onSubscribeFailed(channel, withoutCommand(error)),
      ).then(() => this.#wake(channel));
    }
  }

  /** Warns once for each channel, until a subscription succeeds. */
  #onSubscribeFailed(channel: string, error: unknown): void {
    if (!this.#listeners.has(channel) || this.#failed.has(channel)) return;
    this.#failed.add(channel);
    this.#log.warn(
      "cannot listen for messages on a Redis channel; receivers poll at their poll interval until it " +
        "works again. Check that the user may SUBSCRIBE to it",
      { channel, error },
    );
  }

  /** A later listener subscribes again. */
  #unsubscribeUnused(): void {
    const unused = [...this.#listeners].filter(([, listeners]) => listeners.size === 0);
    if (unused.length === 0) return;
    for (const [channel] of unused) {
      this.#listeners.delete(channel);
      this.#failed.delete(channel);
    }
    this.#connect().unsubscribe(...unused.map(([channel]) => channel)).catch((error) => {
      this.#log.debug("cannot unsubscribe from Redis channels", { error });
    });
  }

  #connect(): RedisSubscriber {
    if (this.#subscriber !== undefined) return this.#subscriber;
    // When the server refuses it, the client's own resubscription ends the process with an unhandled error.
    const subscriber = this.#subscriber = this.#client.duplicate({ autoResubscribe: false });
    subscriber.on("error", (error) => {
      this.#log.debug("the connection for Redis notifications failed", {
        error: withoutCommand(error),
      });
    });
    subscriber.on("message", (channel: string) => this.#wake(channel));
    // A waiting receiver then calls the server and reports the error, instead of waiting on.
    subscriber.on("close", () => this.#wakeAll());
    subscriber.on("ready", () => {
      if (this.#subscriber === subscriber) this.#subscribe([...this.#listeners.keys()]);
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
