import { type Cancel, type Clock, nextTurn } from "../../clock.ts";
import type { Log } from "../../log.ts";
import { systemRandom } from "../../random.ts";
import type { Server } from "./client.ts";

/** How long the connection stays open without receivers. Receivers come and go all the time. */
const LINGER_MS = 5_000;

/**
 * How often a notification of its own tests the connection. A connection may be dead without an error, and
 * clients sometimes do not listen again after a reconnect.
 */
const PROBE_INTERVAL_MS = 15_000;

/** Stops listening. */
type Stop = () => Promise<void>;

/**
 * The listeners of this process, by queue, and the one connection that receives the notifications of other
 * processes. The connection is open only while there are listeners.
 *
 * A broken connection loses notifications, so listeners also poll. The server returns the notifications of
 * this process too; when they stop arriving, the connection is replaced.
 */
export class WakeUps {
  /**
   * Marks the notifications of this process, which need no wake-up. Not from the random source of a
   * mailbox: two processes with the same seed must differ.
   */
  readonly sender: string = systemRandom.id();
  readonly #server: Server;
  readonly #channel: string;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #notify: () => Promise<unknown>;
  readonly #listeners = new Map<string, Set<() => void>>();
  #stop: Stop | undefined;
  #cancelLinger: Cancel | undefined;
  #cancelProbe: Cancel | undefined;
  #echoReceived = true;

  /** `notify` sends a notification with the `sender` of this object. */
  constructor(
    server: Server,
    channel: string,
    clock: Clock,
    log: Log,
    notify: () => Promise<unknown>,
  ) {
    this.#server = server;
    this.#channel = channel;
    this.#clock = clock;
    this.#log = log;
    this.#notify = notify;
  }

  /** Calls `listener` whenever messages of the queue may have become visible. */
  add(queue: string, listener: () => void): () => void {
    const own = () => listener();
    const listeners = this.#listeners.get(queue) ?? new Set();
    this.#listeners.set(queue, listeners.add(own));
    this.#cancelLinger?.();
    this.#cancelLinger = undefined;
    if (this.#stop === undefined) {
      this.#stop = this.#listen();
      this.#startProbing();
    }
    return () => {
      listeners.delete(own);
      if (listeners.size > 0 || this.#listeners.get(queue) !== listeners) return;
      this.#listeners.delete(queue);
      if (this.#listeners.size === 0) this.#linger();
    };
  }

  /** Calls the listeners of this queue. */
  wake(queue: string): void {
    for (const listener of this.#listeners.get(queue) ?? []) listener();
  }

  /** Closes the connection and removes all listeners. */
  async close(): Promise<void> {
    this.#cancelLinger?.();
    this.#cancelProbe?.();
    this.#listeners.clear();
    const stop = this.#stop;
    this.#stop = undefined;
    await stop?.();
  }

  #linger(): void {
    this.#cancelLinger?.();
    this.#cancelLinger = this.#clock.schedule(LINGER_MS, () => void this.close());
  }

  #startProbing(): void {
    this.#echoReceived = true;
    const probe = () => {
      if (!this.#echoReceived) {
        void this.#stop?.();
        this.#stop = this.#listen();
      }
      this.#echoReceived = false;
      this.#notify().catch(() => {}); // then no echo arrives, which the next probe detects
      this.#cancelProbe = this.#clock.schedule(PROBE_INTERVAL_MS, probe);
    };
    this.#cancelProbe = this.#clock.schedule(PROBE_INTERVAL_MS, probe);
  }

  #listen(): Stop {
    const { callerClient } = this.#server;
    const own = callerClient === undefined ? this.#server.connect(1) : undefined;
    let on = true;
    const listening = (callerClient ?? own!).listen(
      this.#channel,
      (payload) => on && this.#onNotification(payload),
      () => on && this.#wakeAll(), // notifications before this moment were lost
    );
    listening.catch((error) => {
      if (on) {
        this.#log.debug(
          `cannot listen for notifications of ${this.#server.name}; the client retries`,
          { error },
        );
      }
    });
    return async () => {
      on = false;
      if (own !== undefined) {
        await nextTurn(); // `end` does not close a connection that the client is about to open
        await own.end({ timeout: 0 });
      } else {
        listening.then(({ unlisten }) => unlisten()).catch(() => {}); // the subscription ended with its connection
      }
    };
  }

  #onNotification(payload: string): void {
    const [sender, queue] = payload.split(" ");
    if (sender === this.sender) this.#echoReceived = true;
    else if (queue !== undefined) this.wake(queue);
  }

  #wakeAll(): void {
    for (const queue of [...this.#listeners.keys()]) this.wake(queue);
  }
}

/** Minimum time between notifications, because each one delays the commits of all sessions. */
const NOTIFY_INTERVAL_MS = 10;

/** Notifies other processes of new messages: the first time at once, then in batches. */
export class Notifier {
  readonly #clock: Clock;
  readonly #send: (queues: readonly string[]) => Promise<unknown>;
  readonly #queues = new Set<string>();
  #cancel: Cancel | undefined;
  #sending: Promise<void> | undefined;
  #sentAt = -Infinity;

  constructor(clock: Clock, send: (queues: readonly string[]) => Promise<unknown>) {
    this.#clock = clock;
    this.#send = send;
  }

  /** Notifies that messages of this queue may have become visible. */
  add(queue: string): void {
    this.#queues.add(queue);
    if (this.#cancel !== undefined || this.#sending !== undefined) return;
    const waitMs = this.#sentAt + NOTIFY_INTERVAL_MS - this.#clock.monotonic();
    if (waitMs <= 0) this.#flush();
    else this.#cancel = this.#clock.schedule(waitMs, () => this.#flush());
  }

  /** Sends the remaining notifications. */
  async close(): Promise<void> {
    while (this.#cancel !== undefined || this.#sending !== undefined) {
      if (this.#cancel !== undefined) this.#flush();
      await this.#sending;
    }
  }

  #flush(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    this.#sending = this.#sendAll();
  }

  async #sendAll(): Promise<void> {
    const queues = [...this.#queues];
    this.#queues.clear();
    this.#sentAt = this.#clock.monotonic();
    try {
      await this.#send(queues);
    } catch {
      // Receivers in other processes also poll.
    }
    this.#sending = undefined;
    for (const queue of this.#queues) this.add(queue);
  }
}
