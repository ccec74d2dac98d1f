import { backoffMs } from "../../_backoff.ts";
import { show } from "../../_checks.ts";
import { missingPackages } from "../../errors.ts";
import { InvalidParameterError, MailboxConnectionError } from "../../mailbox/errors.ts";
import type { OwnClient, SqlClient } from "./client.ts";

/** How to reach a server. */
export interface Server {
  /** Its address as errors and logs name it, without credentials. */
  readonly name: string;
  /** A client that somebody else ends; where there is none, they are made here. */
  readonly given?: SqlClient;
  /** Loads what `connect` needs. */
  load(): Promise<void>;
  /** Makes a client of so many connections. It connects when it is used. */
  connect(connections: number): OwnClient;
}

type MakeClient = (url: string, options: Readonly<Record<string, unknown>>) => OwnClient;

/** Not a literal: an optional peer need not be there when imports are checked. */
const MODULE: string = "postgres";

/** Anybody who looks into `pg_stat_activity` sees whose connections these are. */
const APPLICATION_NAME = "lastcall";

/**
 * The statistics of a queue are always of yesterday, and a plan that was made when the table was empty is
 * kept after it has grown. So the server is told: nothing but the indexes, in their order. A client that
 * is handed in has its own settings, and the right plans once the table was analyzed.
 */
export const PLANNING: Readonly<Record<string, string>> = {
  enable_seqscan: "off",
  enable_bitmapscan: "off",
};

/** Half of a pause is random: processes that lost the server together do not come back together. */
const RECONNECT_PAUSE_MS = { min: 20, max: 1_000 } as const;

/** The server behind a URL or a client. Nothing is loaded or sent yet. */
export function serverOf(target: string | SqlClient, callTimeoutMs: number): Server {
  return typeof target === "string"
    ? new UrlServer(checkUrl(target), callTimeoutMs)
    : new GivenServer(checkClient(target));
}

class GivenServer implements Server {
  readonly name: string = "PostgreSQL";
  readonly given: SqlClient;

  constructor(client: SqlClient) {
    this.given = client;
  }

  async load(): Promise<void> {}

  connect(): never {
    throw new Error("Clients are not made where one was given");
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
        `${missingPackages("A mailbox on PostgreSQL", [MODULE])}, or hand in a client`,
        { cause: error, reason: "client_missing" },
      );
    }
  }

  connect(connections: number): OwnClient {
    const options = {
      max: connections,
      connect_timeout: Math.ceil(this.#callTimeoutMs / 1_000),
      fetch_types: false, // nothing but text travels
      backoff: reconnectPause,
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
      // What it threw may name the password.
      throw new InvalidParameterError(`Invalid url: the client cannot read that of ${this.name}`);
    }
  }
}

/** Seconds until the next attempt to connect. The client's own would grow to 20 s. */
function reconnectPause(retries: number): number {
  return backoffMs(retries + 1, RECONNECT_PAUSE_MS.min, RECONNECT_PAUSE_MS.max) / 1_000;
}

function checkUrl(url: string): string {
  if (/^postgres(ql)?:\/\/./.test(url)) return url;
  const scheme = /^\w*:?/.exec(url)?.[0] ?? ""; // not all of it: there may be a password in it
  throw new InvalidParameterError(
    `Invalid url: expected postgres://user:password@host:port/database, got one that begins with ` +
      show(scheme),
  );
}

/** Where the server is, with nothing of who asks and how: what is doubtful is left out. */
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
