import { settlesWithin } from "../../_promises.ts";
import type { Clock } from "../../clock.ts";
import type { Log } from "../../log.ts";
import { MailboxClosedError } from "../../mailbox/errors.ts";
import { Calls } from "./_calls.ts";
import { connect } from "./_connect.ts";
import type { NatsConnection } from "./nats_connection.ts";

/** How long a close waits for the server, in milliseconds. */
const CLOSE_TIMEOUT_MS = 500;

/** Connection settings that a mailbox and its dead letters share. */
export interface BackendOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly callTimeoutMs: number;
  readonly pollIntervalMs: number;
  readonly replicas: number;
}

/** The inbox prefix of a client whose user may subscribe to no other subjects. */
interface WithOptions {
  readonly options?: { readonly inboxPrefix?: string };
}

/** The connection that a mailbox and its dead letters share: `unopened ─▶ open ─▶ closed`. */
export class Backend {
  readonly options: BackendOptions;
  readonly #server: string | NatsConnection;
  readonly #listeners = new Set<(connected: boolean) => void>();
  #connection: NatsConnection | undefined;
  #stopWatching: (() => void) | undefined;

  constructor(server: string | NatsConnection, options: BackendOptions) {
    this.#server = server;
    this.options = options;
  }

  /** Connects, unless the caller passed a connection. */
  async open(): Promise<void> {
    const server = this.#server;
    const { clock, callTimeoutMs } = this.options;
    this.#connection = typeof server === "string"
      ? await connect(server, callTimeoutMs, clock)
      : server;
    this.#stopWatching = this.#watch(this.#connection);
  }

  get connection(): NatsConnection {
    if (this.#connection !== undefined) return this.#connection;
    throw new MailboxClosedError("The connection to NATS is closed; open the mailbox again");
  }

  /** Creates calls with a subscription of their own. */
  calls(): Calls {
    const { clock, callTimeoutMs } = this.options;
    return new Calls(this.connection, this.inboxPrefix, clock, callTimeoutMs);
  }

  /** The prefix of the subjects that receive answers. */
  get inboxPrefix(): string {
    return (this.connection as WithOptions).options?.inboxPrefix ?? "_INBOX";
  }

  /** Calls `listener` with false when the connection is lost and with true when it is restored. */
  onChange(listener: (connected: boolean) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Closes the connection, unless the caller passed it. */
  async close(): Promise<void> {
    const connection = this.#connection;
    this.#connection = undefined;
    this.#stopWatching?.();
    if (connection === undefined || connection === this.#server || connection.isClosed()) return;
    await settlesWithin(connection.close(), CLOSE_TIMEOUT_MS, this.options.clock);
  }

  #watch(connection: NatsConnection): () => void {
    const events = connection.status() as AsyncIterable<{ readonly type: string }> & {
      stop?(): void;
    };
    const watch = async () => {
      for await (const { type } of events) {
        if (type === "disconnect" || type === "close") this.#notify(false);
        if (type === "reconnect") this.#notify(true);
      }
    };
    watch().catch((error) => {
      this.options.log.debug("could not watch the connection to NATS", { error });
    });
    return () => events.stop?.();
  }

  #notify(connected: boolean): void {
    for (const listener of this.#listeners) listener(connected);
  }
}
