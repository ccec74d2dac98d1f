import { settlesWithin } from "../../_promises.ts";
import type { Clock } from "../../clock.ts";
import type { Log } from "../../log.ts";
import { MailboxClosedError } from "../../mailbox/errors.ts";
import { Calls } from "./_calls.ts";
import { connect } from "./_connect.ts";
import type { NatsConnection } from "./nats_connection.ts";

/** A server that does not say goodbye is not waited for any longer. */
const GOODBYE_MS = 500;

/** How to reach a server. */
export interface BackendOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly callTimeoutMs: number;
  readonly pollIntervalMs: number;
  readonly replicas: number;
}

/** A client's own prefix, where its user may listen to nothing else. */
interface WithOptions {
  readonly options?: { readonly inboxPrefix?: string };
}

/** What a mailbox and its dead letters share: `unopened ─▶ open ─▶ closed`. */
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

  /** Connects, unless the connection was handed in. */
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
    throw new MailboxClosedError("The connection to NATS is closed here");
  }

  /** A subscription of its own, for one that asks. */
  calls(): Calls {
    const { clock, callTimeoutMs } = this.options;
    return new Calls(this.connection, this.inboxPrefix, clock, callTimeoutMs);
  }

  /** What the subjects begin with that answers come to. */
  get inboxPrefix(): string {
    return (this.connection as WithOptions).options?.inboxPrefix ?? "_INBOX";
  }

  /** Calls `listener` whenever the connection has gone, and when it is there again. */
  onChange(listener: (connected: boolean) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Ends the connection, unless it was handed in. */
  async close(): Promise<void> {
    const connection = this.#connection;
    this.#connection = undefined;
    this.#stopWatching?.();
    if (connection === undefined || connection === this.#server || connection.isClosed()) return;
    await settlesWithin(connection.close(), GOODBYE_MS, this.options.clock);
  }

  #watch(connection: NatsConnection): () => void {
    const events = connection.status() as AsyncIterable<{ readonly type: string }> & {
      stop?(): void;
    };
    const watch = async () => {
      for await (const { type } of events) {
        if (type === "disconnect" || type === "close") this.#tell(false);
        if (type === "reconnect") this.#tell(true);
      }
    };
    watch().catch((error) => {
      this.options.log.debug("could not watch the connection to NATS", { error });
    });
    return () => events.stop?.();
  }

  #tell(connected: boolean): void {
    for (const listener of this.#listeners) listener(connected);
  }
}
