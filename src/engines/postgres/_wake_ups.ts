import { type Cancel, type Clock, nextTurn } from "../../clock.ts";
import type { Log } from "../../log.ts";
import { systemRandom } from "../../random.ts";
import type { Server, SqlClient } from "./client.ts";
import { notificationOf } from "./_notification.ts";

/** How long the connection stays open without receivers. Receivers come and go all the time. */
const LINGER_MS = 5_000;

/**
 * How often a notification of its own tests the connection. A connection may be dead without an error, and
 * clients sometimes do not listen again after a reconnect.
 */
const PROBE_INTERVAL_MS = 15_000;

/** The server truncates longer channel names. */
const MAX_CHANNEL = 63;

/** Stops listening. */
type Stop = () => Promise<void>;

/** Listeners by queue. */
class Listeners<A extends readonly unknown[]> {
  readonly #queues = new Map<string, Set<(...args: A) => void>>();

  get queues(): readonly string[] {
    return [...this.#queues.keys()];
  }

  add(queue: string, listener: (...args: A) => void): () => void {
    const own = (...args: A) => listener(...args);
    const listeners = this.#queues.get(queue) ?? new Set();
    this.#queues.set(queue, listeners.add(own));
    return () => {
      listeners.delete(own);
      if (listeners.size === 0 && this.#queues.get(queue) === listeners) this.#queues.delete(queue);
    };
  }

  call(queue: string, ...args: A): void {
    for (const listener of this.#queues.get(queue) ?? []) listener(...args);
  }

  clear(): void {
    this.#queues.clear();
  }
}

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
  /** The secret channel for messages that are handed over to this process. */
  readonly inbox: string;
  readonly #server: Server;
  readonly #channel: string;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #notify: () => Promise<unknown>;
  readonly #wakes = new Listeners<[]>();
  readonly #cancels = new Listeners<[id: string]>();
  readonly #handovers = new Listeners<[handed: string]>();
  /** The received parts of long ids, by sender. */
  readonly #parts = new Map<string, string>();
  #stop: Stop | undefined;
  /** The client that listens, or will. */
  #client: SqlClient | undefined;
  /** Gets the pid of the connection. The connection stays open while it is set. */
  #onConnection: ((pid: number | undefined) => void) | undefined;
  #cancelLinger: Cancel | undefined;
  #cancelProbe: Cancel | undefined;
  #echoReceived = true;
  /** The client that listens to the inbox, and the function that ends this. */
  #inbox: { readonly client: SqlClient; readonly stop?: Stop } | undefined;

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
    this.inbox = `${channel}_${systemRandom.id().replaceAll("-", "")}`.slice(0, MAX_CHANNEL);
    this.#clock = clock;
    this.#log = log;
    this.#notify = notify;
  }

  /** Calls `listener` whenever messages of the queue may have become visible. */
  add(queue: string, listener: () => void): () => void {
    return this.#listening(this.#wakes.add(queue, listener));
  }

  /** Returns true if the connection listens to the inbox. The first call starts that and does not wait. */
  openInbox(): boolean {
    const client = this.#client;
    if (client === undefined) return false;
    if (this.#inbox?.client === client) return this.#inbox.stop !== undefined;
    const inbox = this.#inbox = { client };
    const onPayload = (payload: string) =>
      this.#inbox?.client === client && this.#onHandover(payload);
    const onFailure = (error: unknown) => {
      if (this.#inbox !== inbox) return;
      this.#inbox = undefined; // the next call tries again
      // A connection that breaks during a statement: the client may forget the channel that it listened to before.
      if (client !== this.#server.callerClient && !isRefusal(error)) this.#replaceConnection();
    };
    client.listen(this.inbox, onPayload).then(({ unlisten }) => {
      if (this.#inbox === inbox) this.#inbox = { client, stop: unlisten };
      else return unlisten();
    }).catch(onFailure);
    return false;
  }

  /** Calls `listener` with each handover to this process, while a listener of `add` keeps the connection. */
  onHandover(queue: string, listener: (handed: string) => void): () => void {
    return this.#handovers.add(queue, listener);
  }

  /** Calls `listener` with the id of each message of the queue that is cancelled while in flight. */
  onCancel(queue: string, listener: (id: string) => void): () => void {
    return this.#listening(this.#cancels.add(queue, listener));
  }

  /**
   * Keeps the connection open until the returned function is called. Calls `listener` each time it listens, with
   * the pid of the server's process, or undefined if the client does not tell it.
   */
  keep(listener: (pid: number | undefined) => void): () => void {
    this.#onConnection = listener;
    const client = this.#client;
    const remove = this.#listening(() => this.#onConnection = undefined);
    if (client !== undefined) void this.#tellConnection(client);
    return remove;
  }

  /** Calls the listeners of this queue. */
  wake(queue: string): void {
    this.#wakes.call(queue);
  }

  /** Calls the listeners of cancelled messages. */
  cancelled(queue: string, id: string): void {
    this.#cancels.call(queue, id);
  }

  /** Closes the connection and removes all listeners. */
  async close(): Promise<void> {
    this.#cancelLinger?.();
    this.#cancelProbe?.();
    this.#wakes.clear();
    this.#cancels.clear();
    this.#handovers.clear();
    this.#onConnection = undefined;
    const stop = this.#stop;
    this.#stop = undefined;
    this.#client = undefined;
    await stop?.();
  }

  /** Keeps the connection open until the returned function has removed the last listener. */
  #listening(remove: () => void): () => void {
    this.#cancelLinger?.();
    this.#cancelLinger = undefined;
    if (this.#stop === undefined) {
      this.#stop = this.#listen();
      this.#startProbing();
    }
    return () => {
      remove();
      const listeners = this.#wakes.queues.length + this.#cancels.queues.length;
      if (listeners === 0 && this.#onConnection === undefined) this.#linger();
    };
  }

  #linger(): void {
    this.#cancelLinger?.();
    if (this.#stop === undefined) return;
    this.#cancelLinger = this.#clock.schedule(LINGER_MS, () => void this.close());
  }

  #startProbing(): void {
    this.#echoReceived = true;
    const probe = () => {
      if (!this.#echoReceived) this.#replaceConnection();
      this.#echoReceived = false;
      this.#notify().catch(() => {}); // then no echo arrives, which the next probe detects
      this.#cancelProbe = this.#clock.schedule(PROBE_INTERVAL_MS, probe);
    };
    this.#cancelProbe = this.#clock.schedule(PROBE_INTERVAL_MS, probe);
  }

  #replaceConnection(): void {
    void this.#stop?.();
    this.#stop = this.#listen();
  }

  #listen(): Stop {
    const { callerClient } = this.#server;
    const own = callerClient === undefined ? this.#server.connect(1) : undefined;
    const client = callerClient ?? own!;
    this.#client = client;
    let on = true;
    const onListen = () => {
      if (!on) return;
      this.#wakeAll(); // notifications before this moment were lost
      if (this.#onConnection !== undefined) void this.#tellConnection(client);
    };
    const onNotify = (payload: string) => on && this.#onNotification(payload);
    const listening = client.listen(this.#channel, onNotify, onListen);
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
      const inbox = this.#inbox;
      if (inbox?.client === client) this.#inbox = undefined;
      if (own !== undefined) {
        await nextTurn(); // `end` does not close a connection that the client is about to open
        await own.end({ timeout: 0 });
      } else {
        inbox?.stop?.().catch(() => {});
        listening.then(({ unlisten }) => unlisten()).catch(() => {}); // the subscription ended with its connection
      }
    };
  }

  /** A payload is `<sender> <queue>`, and for a cancelled message ` <part>/<parts> <text>` of its id. */
  #onNotification(payload: string): void {
    const { sender, queue, part } = notificationOf(payload);
    if (sender === this.sender) this.#echoReceived = true;
    else if (part === undefined) this.wake(queue);
    else {
      const id = `${part.index === 1 ? "" : this.#parts.get(sender) ?? ""}${part.text}`;
      this.#parts.delete(sender);
      if (part.index === part.count) this.cancelled(queue, id);
      else this.#parts.set(sender, id);
    }
  }

  /** A payload is `<queue> <receipt> <number>`. */
  #onHandover(payload: string): void {
    const [queue = ""] = payload.split(" ", 1);
    this.#handovers.call(queue, payload.slice(queue.length + 1));
  }

  /** Another listener of the same channel shares the connection, and gets its state. */
  async #tellConnection(client: SqlClient): Promise<void> {
    try {
      const { state, unlisten } = await client.listen(this.#channel, () => {});
      await unlisten();
      if (this.#client === client) this.#onConnection?.(state?.pid ?? undefined);
    } catch {
      // The connection broke; the client listens again.
    }
  }

  #wakeAll(): void {
    for (const queue of this.#wakes.queues) this.wake(queue);
  }
}

/** Whether the server has refused a statement, and the connection still works. */
function isRefusal(error: unknown): boolean {
  return (error as { readonly severity?: string }).severity === "ERROR";
}
