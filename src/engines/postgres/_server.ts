import { backoffMs } from "../../_backoff.ts";
import { show } from "../../_checks.ts";
import { missingPackages } from "../../errors.ts";
import { InvalidParameterError, MailboxConnectionError } from "../../mailbox/errors.ts";
import type { OwnClient, SqlClient } from "./client.ts";

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

/** A variable, not a literal, because tools that check imports must not require an optional peer. */
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
    try {
      ({ default: this.#makeClient } = await import(MODULE) as { readonly default: MakeClient });
    } catch (error) {
      throw new MailboxConnectionError(
        `${missingPackages("A mailbox on PostgreSQL", [MODULE])}, or pass a client`,
        { cause: error, reason: "client_missing" },
      );
    }
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

/** Returns host, port and database for errors and logs, without credentials and parameters. */
function nameOf(url: string): string {
  const place = url.replace(/^\w+:\/\//, "").replace(/^.*@/s, "").replace(/[?#].*$/s, "");
  return /^[\w.,:[\]-]+(\/[\w.-]*)?$/.test(place) ? `PostgreSQL at ${place}` : "PostgreSQL";
}

function checkClient(client: SqlClient): SqlClient {
  if (typeof client?.unsafe === "function" && typeof client.listen === "function") return client;
  throw new InvalidParameterError(
    `Invalid client: expected a URL or a client of the package "postgres", got ${show(client)}`,
  );
}
