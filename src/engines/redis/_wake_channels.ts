import type { Log } from "../../log.ts";
import { type RedisClient, type RedisSubscriber, withoutCommand } from "./redis_client.ts";

/** By client, because mailboxes of one client have nothing but the client in common. */
const shared = new WeakMap<RedisClient, WakeChannels>();

/** Called with the text of a notification, or with undefined when notifications may have been lost. */
export type ChannelListener = (text?: string) => void;

interface Channel {
  readonly listeners: Set<ChannelListener>;
  /** What a failed subscription means. */
  readonly warning: string;
  state: ChannelState;
  /** True when the warning was logged and no subscription has succeeded since. */
  warned: boolean;
}

/** Whether notifications of a channel arrive now. A failed subscription was refused, or its connection broke. */
export type ChannelState = "pending" | "subscribed" | "failed";

const NO_MESSAGES =
  "cannot listen for messages on a Redis channel; receivers poll at their poll interval until it works " +
  "again. Check that the user may SUBSCRIBE to it";

/**
 * The channels on which mailboxes announce new and cancelled messages. They use one connection per client, because a
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
  readonly #channels = new Map<string, Channel>();
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
    this.#channels.clear();
    this.#subscriber?.disconnect();
    this.#subscriber = undefined;
  }

  /**
   * Calls `listener` on every notification of the channel, and whenever one may have been lost. `warning` is
   * logged when the subscription fails.
   */
  listen(channel: string, listener: ChannelListener, warning: string = NO_MESSAGES): () => void {
    const own = (text?: string) => listener(text);
    const known = this.#channels.get(channel);
    if (known === undefined) {
      const listeners = new Set([own]);
      this.#channels.set(channel, { listeners, warning, state: "pending", warned: false });
      this.#subscribe([channel]);
    } else {
      known.listeners.add(own);
      if (known.state === "failed") this.#subscribe([channel]);
    }
    return () => void this.#channels.get(channel)?.listeners.delete(own);
  }

  /** Returns whether notifications of the channel arrive now. Its listeners are called after each change. */
  stateOf(channel: string): ChannelState | undefined {
    return this.#channels.get(channel)?.state;
  }

  /**
   * Subscribes to each channel by itself, because the user may have the permission for some only. A
   * subscription outlives its listeners, as a new one costs a round trip.
   */
  #subscribe(channels: readonly string[]): void {
    for (const channel of channels) {
      this.#connect().subscribe(channel).then(
        () => this.#onSubscribed(channel),
        (error) => this.#onSubscribeFailed(channel, withoutCommand(error)),
      ).then(() => this.#wake(channel));
    }
  }

  #onSubscribed(name: string): void {
    const channel = this.#channels.get(name);
    if (channel === undefined) return;
    channel.state = "subscribed";
    channel.warned = false;
  }

  /** Warns once for each channel, until a subscription succeeds. */
  #onSubscribeFailed(name: string, error: unknown): void {
    const channel = this.#channels.get(name);
    if (channel === undefined) return;
    channel.state = "failed";
    if (channel.warned) return;
    channel.warned = true;
    this.#log.warn(channel.warning, { channel: name, error });
  }

  /** A later listener subscribes again. */
  #unsubscribeUnused(): void {
    const unused = [...this.#channels].filter(([, { listeners }]) => listeners.size === 0);
    if (unused.length === 0) return;
    for (const [channel] of unused) this.#channels.delete(channel);
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
    subscriber.on("message", (channel: string, text: string) => this.#wake(channel, text));
    // A waiting receiver then calls the server and reports the error, instead of waiting on.
    subscriber.on("close", () => {
      for (const channel of this.#channels.values()) {
        if (channel.state === "subscribed") channel.state = "pending";
      }
      this.#wakeAll();
    });
    subscriber.on("ready", () => {
      if (this.#subscriber === subscriber) this.#subscribe([...this.#channels.keys()]);
    });
    return subscriber;
  }

  #wakeAll(): void {
    for (const channel of [...this.#channels.keys()]) this.#wake(channel);
  }

  #wake(channel: string, text?: string): void {
    for (const listener of this.#channels.get(channel)?.listeners ?? []) listener(text);
  }
}
