/**
 * The connection to a NATS server: the parts of a client that the engine uses, and how the engine opens,
 * watches and closes one. The connections of `@nats-io/transport-node` and of the packages for other
 * runtimes have this shape.
 *
 * @module
 */

import { settlesWithin } from "../../_promises.ts";
import type { Clock } from "../../clock.ts";
import type { Log } from "../../log.ts";
import { MailboxClosedError } from "../../mailbox/errors.ts";
import type { Random } from "../../random.ts";
import { loadClient } from "../_kit/calls.ts";
import { connectionError } from "./_errors.ts";

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

/** Settings that a mailbox and its dead letters share. */
export interface ConnectionOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly callTimeoutMs: number;
  readonly pollIntervalMs: number;
  readonly replicas: number;
}

/** How long a close waits for the server, in milliseconds. */
const CLOSE_TIMEOUT_MS = 500;

/** The connection that a mailbox and its dead letters share: `unopened ─▶ open ─▶ closed`. */
export class SharedConnection {
  readonly options: ConnectionOptions;
  readonly #server: string | NatsConnection;
  readonly #listeners = new Set<(connected: boolean) => void>();
  #client: NatsConnection | undefined;
  #stopWatching: (() => void) | undefined;

  constructor(server: string | NatsConnection, options: ConnectionOptions) {
    this.#server = server;
    this.options = options;
  }

  /** Connects, unless the caller passed a connection. */
  async open(): Promise<void> {
    const server = this.#server;
    const { clock, callTimeoutMs } = this.options;
    this.#client = typeof server === "string"
      ? await connect(server, callTimeoutMs, clock)
      : server;
    this.#stopWatching = this.#watch(this.#client);
  }

  get client(): NatsConnection {
    if (this.#client !== undefined) return this.#client;
    throw new MailboxClosedError("The connection to NATS is closed; open the mailbox again");
  }

  /** Returns a new subject for answers, below the prefix that the client may subscribe to. */
  newInbox(): string {
    const { options } = this.client as { readonly options?: { readonly inboxPrefix?: string } };
    return `${options?.inboxPrefix ?? "_INBOX"}.${this.options.random.id()}`;
  }

  /** Calls `listener` with false when the connection is lost and with true when it is restored. */
  onChange(listener: (connected: boolean) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Closes the connection, unless the caller passed it. */
  async close(): Promise<void> {
    const client = this.#client;
    this.#client = undefined;
    this.#stopWatching?.();
    if (client === undefined || client === this.#server || client.isClosed()) return;
    await settlesWithin(client.close(), CLOSE_TIMEOUT_MS, this.options.clock);
  }

  #watch(client: NatsConnection): () => void {
    const events = client.status() as ReturnType<NatsConnection["status"]> & { stop?(): void };
    const watch = async () => {
      for await (const { type } of events) {
        if (!["disconnect", "close", "reconnect"].includes(type)) continue;
        for (const listener of this.#listeners) listener(type === "reconnect");
      }
    };
    watch().catch((error) => {
      this.options.log.debug("cannot watch the connection to NATS", { error });
    });
    return () => events.stop?.();
  }
}

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
 * which does not name the request, so concurrent requests need separate subscriptions. New ones for each
 * request would take a fifth more processor time.
 */
export class Inboxes {
  readonly #connection: SharedConnection;
  readonly #client: NatsConnection;
  readonly #free: Inbox[] = [];
  readonly #retired: Inbox[] = [];
  readonly #all = new Set<Inbox>();

  constructor(connection: SharedConnection) {
    this.#connection = connection;
    this.#client = connection.client;
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
    const subject = this.#connection.newInbox();
    const subscription = this.#client.subscribe(subject, {
      callback: (error, message) => error ?? inbox.onMessage(message),
    });
    const inbox: Inbox = { subject, subscription, onMessage: () => {} };
    this.#all.add(inbox);
    return inbox;
  }

  #unsubscribe(inbox: Inbox): void {
    this.#all.delete(inbox);
    if (!this.#client.isClosed()) inbox.subscription.unsubscribe();
  }
}

/** Not a literal, because type checks must pass without the optional peer dependency. */
const MODULE: string = "@nats-io/transport-node";

const LONGEST_PAUSE_MS = 1_000;

/** Connects to one of the hosts in a URL. Commas separate several hosts. */
async function connect(url: string, timeoutMs: number, clock: Clock): Promise<NatsConnection> {
  const { connect } = await loadClient<{ connect(options: object): Promise<NatsConnection> }>(
    "A mailbox on NATS",
    MODULE,
    () => import(MODULE),
  );
  const { tls, hosts, ...credentials } = parseUrl(url);
  const connecting = connect({
    ...credentials,
    ...(tls ? { tls: {} } : {}),
    servers: hosts,
    name: "lastcall",
    timeout: timeoutMs,
    maxReconnectAttempts: -1,
    // A worker keeps reconnecting while the server refuses its credentials.
    ignoreAuthErrorAbort: true,
    reconnectTimeWait: LONGEST_PAUSE_MS / 4,
    reconnectJitter: LONGEST_PAUSE_MS / 4,
    // Pings detect a dead connection that no side has closed.
    pingInterval: 2 * timeoutMs,
    maxPingOut: 2,
  });
  try {
    if (await settlesWithin(connecting, timeoutMs, clock)) return await connecting;
    // Closes a connection that is established after the timeout.
    connecting.then((connection) => connection.close()).catch(() => {});
    throw new Error(`no answer within ${timeoutMs} ms`);
  } catch (error) {
    throw connectionError(`connect to ${hosts.join(", ")}`, error);
  }
}

/** Parses `nats://user:password@host:port,host:port`. A user without a password is a token. */
function parseUrl(url: string) {
  const [, scheme, login, hosts = ""] = /^(\w+):\/\/(?:(.*)@)?([^/?#]*)/.exec(url)!;
  const address = { tls: scheme === "tls", hosts: hosts.split(",") };
  if (login === undefined) return address;
  const [user = "", pass] = login.split(/:(.*)/s).map(decodeURIComponent);
  return pass === undefined ? { ...address, token: user } : { ...address, user, pass };
}
