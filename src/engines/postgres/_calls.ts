import { deferred } from "../../_promises.ts";
import type { Cancel, Clock } from "../../clock.ts";
import {
  isMailboxError,
  MailboxClosedError,
  MailboxConnectionError,
} from "../../mailbox/errors.ts";
import type { OwnClient, Server, SqlClient, SqlParameter, SqlQuery, SqlRow } from "./client.ts";

/** A client and the state of its calls. */
interface ClientState {
  readonly client: SqlClient;
  /** Undefined for a client that the caller passed. */
  readonly own: OwnClient | undefined;
  /** How many calls are pending. */
  pending: number;
  /** True when a call has failed. The client may then wait forever for a broken connection to close. */
  failed: boolean;
  /** Set once the client is retired: cancels the timer that ends it. */
  cancelEnd?: Cancel;
}

/** How often a statement runs that the server aborts because of a conflict. */
const ATTEMPTS = 3;

/** How long a retired client may still deliver late replies. */
const LATE_MS = 60_000;

/**
 * Runs statements, each with a timeout.
 *
 * A connection to a frozen or unreachable server may stay silent forever. So after a timeout the client is
 * retired: the next call uses new connections, and late replies of the old ones are still processed.
 */
export class Calls {
  readonly server: string;
  readonly #server: Server;
  readonly #connections: number;
  readonly #timeoutMs: number;
  readonly #clock: Clock;
  readonly #retired = new Set<ClientState>();
  #current: ClientState | undefined;
  #closed = false;

  constructor(server: Server, connections: number, timeoutMs: number, clock: Clock) {
    this.server = server.name;
    this.#server = server;
    this.#connections = connections;
    this.#timeoutMs = timeoutMs;
    this.#clock = clock;
  }

  /** Runs a prepared statement. `onLate` gets the rows that arrive after the timeout. */
  async call(
    action: string,
    statement: string,
    parameters: SqlParameter[],
    onLate?: (rows: readonly SqlRow[]) => void,
  ): Promise<readonly SqlRow[]> {
    const send = (client: SqlClient) => client.unsafe(statement, parameters, { prepare: true });
    for (let attempt = 1;; attempt++) {
      try {
        return await this.#withTimeout(action, send, onLate);
      } catch (error) {
        if (!isConflict(error) || attempt === ATTEMPTS) {
          throw connectionError(this.server, action, error);
        }
      }
    }
  }

  /** Runs a statement once, without preparing it, in one round trip. */
  async run(action: string, statement: string): Promise<readonly SqlRow[]> {
    try {
      return await this.#withTimeout(action, (client) => client.unsafe(statement));
    } catch (error) {
      throw connectionError(this.server, action, error);
    }
  }

  /** Ends the clients that this package created, together with their pending calls. */
  async close(): Promise<void> {
    this.#closed = true;
    const states = [...this.#retired, ...(this.#current === undefined ? [] : [this.#current])];
    this.#current = undefined;
    this.#retired.clear();
    for (const { cancelEnd } of states) cancelEnd?.();
    await Promise.all(
      states.map(({ own, pending, failed }) =>
        own?.end({ timeout: pending > 0 || failed ? 0 : 1 })
      ),
    );
  }

  async #withTimeout(
    action: string,
    send: (client: SqlClient) => SqlQuery,
    onLate: (rows: readonly SqlRow[]) => void = () => {},
  ): Promise<readonly SqlRow[]> {
    if (this.#closed) {
      throw new MailboxClosedError(
        `Cannot ${action}: this mailbox has closed its connections to ${this.server}. Open it again`,
      );
    }
    const state = this.#current ??= this.#open();
    const expired = deferred<undefined>();
    const cancel = this.#clock.schedule(this.#timeoutMs, () => expired.resolve(undefined));
    state.pending++;
    const query = send(state.client);
    const reply = Promise.resolve(query).then(withoutHoles).finally(() => this.#onReply(state));
    try {
      const rows = await Promise.race([reply, expired.promise]);
      if (rows !== undefined) return rows;
    } catch (error) {
      state.failed = true;
      throw error;
    } finally {
      cancel();
    }
    reply.then(onLate, () => {}); // the timeout error below has reported the failure
    this.#retire(state);
    // Cancels a statement that still waits for a connection, so that it does not run later. Only after
    // the client is retired, because it forgets the connection that it opens for the statement.
    if (state.own !== undefined && query.state === null) query.cancel?.();
    throw timeoutError(this.server, action, this.#timeoutMs);
  }

  #open(): ClientState {
    const { callerClient: client } = this.#server;
    if (client !== undefined) return { client, own: undefined, pending: 0, failed: false };
    const own = this.#server.connect(this.#connections);
    return { client: own, own, pending: 0, failed: false };
  }

  #retire(state: ClientState): void {
    if (state.own === undefined || this.#current !== state) return;
    this.#current = undefined;
    this.#retired.add(state);
    state.cancelEnd = this.#clock.schedule(LATE_MS, () => this.#end(state));
  }

  #onReply(state: ClientState): void {
    if (--state.pending === 0 && this.#retired.has(state)) this.#end(state);
  }

  #end(state: ClientState): void {
    state.cancelEnd?.();
    this.#retired.delete(state);
    state.own?.end({ timeout: 0 }).catch(() => {}); // it is not used again, whether it ended or not
  }
}

/** Converts an error of the client to a `MailboxConnectionError`. `server` contains no credentials. */
function connectionError(server: string, action: string, error: unknown): Error {
  if (isMailboxError(error)) return error;
  const text = error instanceof Error && error.message !== "" ? error.message : codeOf(error);
  return new MailboxConnectionError(
    `${server} failed to ${action}: ${text}${ADVICE[codeOf(error)] ?? ""}`,
    { cause: error },
  );
}

/** Returns the error of a call that timed out. The server may still have run it. */
function timeoutError(server: string, action: string, ms: number): MailboxConnectionError {
  return new MailboxConnectionError(
    `${server} did not ${action} within ${ms} ms: it is frozen, overloaded or unreachable. Check the ` +
      "server, or raise callTimeoutMs if it is only slow",
  );
}

/**
 * Returns the rows of a result. When a connection breaks between two rows, postgres.js 3.4 counts the rows before
 * the break as the first ones of the next result: that one begins with holes.
 */
function withoutHoles(rows: readonly SqlRow[]): readonly SqlRow[] {
  return rows.length === 0 || 0 in rows ? rows : rows.filter(() => true);
}

/** Returns true when the server aborted and rolled back the statement because of a conflict. */
function isConflict(error: unknown): boolean {
  return /^40(P01|001)$/.test(codeOf(error));
}

/** Returns true if the role had no permission for the call, which then did nothing. */
export function isForbidden(error: unknown): boolean {
  return codeOf((error as { readonly cause?: unknown }).cause) === "42501";
}

/** Returns the SQLSTATE, or the code of a system error. */
function codeOf(error: unknown): string {
  return String((error as { readonly code?: unknown } | null)?.code ?? error);
}

const ADVICE: Readonly<Record<string, string>> = {
  "08P01": ". Behind a connection pooler, pass your own client instead of a URL",
  "3D000": ". Create the database first",
  "28P01": ". Check the password",
  "42501": ". Grant the permission to this user, or let a user that has it migrate first",
  "42P07":
    ". The schema contains a table of another program, which was not changed: choose another one",
  "53300": ". Lower maxConnections, or raise max_connections of the server",
  "ECONNREFUSED": ". Check that the server runs and that the address is correct",
};
