/**
 * The part of a PostgreSQL client that a mailbox uses, and how a mailbox creates clients.
 *
 * @module
 */

import { backoffMs } from "../../_backoff.ts";
import { show } from "../../_checks.ts";
import { InvalidParameterError } from "../../mailbox/errors.ts";
import { loadClient } from "../_kit/calls.ts";
import { redactUrl } from "../_kit/mailbox_url.ts";

/** A parameter of a statement. All values are text, and the statement casts them. */
export type SqlParameter = string | null;

/** A row of a result. */
export type SqlRow = Readonly<Record<string, unknown>>;

/** A statement and its result. */
export interface SqlQuery extends PromiseLike<readonly SqlRow[]> {
  /** Null until the statement is sent. */
  readonly state?: unknown;
  /** Cancels the statement. */
  cancel?(): void;
}

/** The part of a client that a mailbox uses. The client of the package `postgres` has this shape. */
export interface SqlClient {
  /** Runs one statement. */
  unsafe(
    query: string,
    parameters?: SqlParameter[],
    options?: { prepare?: boolean },
  ): SqlQuery;
  /**
   * Listens to a channel until `unlisten`, and again after a reconnect. The `state` has the pid of the server's
   * process for the connection; without it, other processes do not notice when this one dies.
   */
  listen(
    channel: string,
    onNotify: (payload: string) => void,
    onListen?: () => void,
  ): Promise<{
    readonly state?: { readonly pid?: number | null | undefined } | undefined;
    unlisten(): Promise<void>;
  }>;
}

/** A client that this package created and has to end. */
export interface OwnClient extends SqlClient {
  /** Ends the client after at most `timeout` seconds for pending statements. */
  end(options: { timeout: number }): Promise<void>;
}

/** Creates clients of one server. */
export interface Server {
  /** The address for errors and logs, without credentials. */
  readonly name: string;
  /** The client that the caller passed and ends itself; undefined for a URL. */
  readonly callerClient?: SqlClient;
  /** Loads the package that `connect` needs. */
  load(): Promise<void>;
  /** Creates a client with so many connections. It connects on first use. */
  connect(connections: number): OwnClient;
}

type MakeClient = (url: string, options: Readonly<Record<string, unknown>>) => OwnClient;

/** A variable, not a literal: see `loadClient`. */
const MODULE: string = "postgres";

/** Identifies the connections in `pg_stat_activity`. */
const APPLICATION_NAME = "lastcall";

/**
 * Makes the planner use the indexes only. The statistics of a queue are always stale, and a plan that was
 * made for an empty table is kept after it has grown. A client of the caller keeps its own settings and
 * gets the right plans once the table was analyzed.
 */
export const PLANNING: Readonly<Record<string, string>> = {
  enable_seqscan: "off",
  enable_bitmapscan: "off",
  jit: "off", // it would compile short statements because their estimated costs are too high
};

/** Half of a delay is random, so that processes do not reconnect at the same moment. */
const RECONNECT_DELAY_MS = { min: 20, max: 1_000 } as const;

/** Returns the server of a URL or a client. It does not load or send anything yet. */
export function serverOf(target: string | SqlClient, callTimeoutMs: number): Server {
  return typeof target === "string"
    ? new UrlServer(checkUrl(target), callTimeoutMs)
    : new ClientServer(checkClient(target));
}

class ClientServer implements Server {
  readonly name: string = "PostgreSQL";
  readonly callerClient: SqlClient;

  constructor(client: SqlClient) {
    this.callerClient = client;
  }

  async load(): Promise<void> {}

  connect(): never {
    throw new Error("Cannot create a client: use the client that the caller passed");
  }
}

class UrlServer implements Server {
  readonly name: string;
  readonly #url: string;
  readonly #callTimeoutMs: number;
  #makeClient: MakeClient | undefined;

  constructor(url: string, callTimeoutMs: number) {
    this.name = nameOf(url);
    this.#url = url;
    this.#callTimeoutMs = callTimeoutMs;
  }

  async load(): Promise<void> {
    const { default: makeClient } = await loadClient<{ readonly default: MakeClient }>(
      "A mailbox on PostgreSQL",
      MODULE,
      () => import(MODULE),
    );
    this.#makeClient = makeClient;
  }

  connect(connections: number): OwnClient {
    const options = {
      max: connections,
      connect_timeout: Math.ceil(this.#callTimeoutMs / 1_000),
      fetch_types: false, // all values are text
      backoff: reconnectDelay,
      onnotice() {},
      connection: {
        application_name: APPLICATION_NAME,
        statement_timeout: Math.ceil(this.#callTimeoutMs),
        default_transaction_isolation: "read committed", // a new snapshot after waiting for a lock
        ...PLANNING,
      },
    };
    try {
      return this.#makeClient!(this.#url, options);
    } catch {
      // The error of the client may contain the password.
      throw new InvalidParameterError(
        `Invalid url: the client cannot parse that of ${this.name}. Check its parameters`,
      );
    }
  }
}

/** Returns the delay before the next attempt to connect, in seconds. The client's default grows to 20 s. */
function reconnectDelay(retries: number): number {
  return backoffMs(retries + 1, RECONNECT_DELAY_MS.min, RECONNECT_DELAY_MS.max) / 1_000;
}

function checkUrl(url: string): string {
  if (/^postgres(ql)?:\/\/./.test(url)) return url;
  const scheme = /^\w*:?/.exec(url)?.[0] ?? ""; // the rest may contain a password
  throw new InvalidParameterError(
    `Invalid url: expected postgres://user:password@host:port/database, got one that starts with ` +
      show(scheme),
  );
}

/** Returns host, port and database for errors and logs. */
function nameOf(url: string): string {
  const place = redactUrl(url).replace(/^\w+:\/\//, "");
  return /^[\w.,:[\]-]+(\/[\w.-]*)?$/.test(place) ? `PostgreSQL at ${place}` : "PostgreSQL";
}

function checkClient(client: SqlClient): SqlClient {
  if (typeof client?.unsafe === "function" && typeof client.listen === "function") return client;
  throw new InvalidParameterError(
    `Invalid client: expected a URL or a client of the package "postgres", got ${show(client)}`,
  );
}
