import { deferred } from "../../_promises.ts";
import type { Cancel, Clock } from "../../clock.ts";
import { MailboxClosedError } from "../../mailbox/errors.ts";
import type { OwnClient, SqlClient, SqlParameter, SqlQuery, SqlRow } from "./client.ts";
import { connectionError, isConflict, timeoutError } from "./_errors.ts";
import type { Server } from "./_server.ts";

/** A client and how many of its calls are under way. */
interface Line {
  readonly client: SqlClient;
  /** Undefined for a client that was given. */
  readonly own: OwnClient | undefined;
  open: number;
  /** A call has failed. The client may wait in vain for the end of a connection that broke. */
  failed: boolean;
  /** Set once nothing new is sent through it. */
  giveUp?: Cancel;
}

/** What the server gave up for the sake of another is tried again. */
const ATTEMPTS = 3;

/** A client that did not answer in time may hand over late what was asked of it, for this long. */
const LATE_MS = 60_000;

/**
 * The calls to a server, each within its time.
 *
 * A connection whose other end is frozen or gone may stay silent for good. After a call that was not
 * answered in time the client is put aside: the next call goes through fresh connections, and what the
 * old ones answer late is still heard.
 */
export class Calls {
  readonly server: string;
  readonly #server: Server;
  readonly #connections: number;
  readonly #timeoutMs: number;
  readonly #clock: Clock;
  readonly #aside = new Set<Line>();
  #line: Line | undefined;
  #closed = false;

  constructor(server: Server, connections: number, timeoutMs: number, clock: Clock) {
    this.server = server.name;
    this.#server = server;
    this.#connections = connections;
    this.#timeoutMs = timeoutMs;
    this.#clock = clock;
  }

  /** Sends a prepared statement. `onLate` gets the answer of one that was given up. */
  async call(
    what: string,
    statement: string,
    parameters: SqlParameter[],
    onLate?: (rows: readonly SqlRow[]) => void,
  ): Promise<readonly SqlRow[]> {
    const send = (client: SqlClient) => client.unsafe(statement, parameters, { prepare: true });
    for (let attempt = 1;; attempt++) {
      try {
        return await this.#inTime(what, send, onLate);
      } catch (error) {
        if (!isConflict(error) || attempt === ATTEMPTS) {
          throw connectionError(this.server, what, error);
        }
      }
    }
  }

  /** Sends a statement that is used only once. */
  async run(what: string, statement: string): Promise<void> {
    try {
      await this.#inTime(what, (client) => client.unsafe(statement));
    } catch (error) {
      throw connectionError(this.server, what, error);
    }
  }

  /** Ends the clients that were made here, and what is under way with them. */
  async close(): Promise<void> {
    this.#closed = true;
    const lines = [...this.#aside, ...(this.#line === undefined ? [] : [this.#line])];
    this.#line = undefined;
    this.#aside.clear();
    for (const { giveUp } of lines) giveUp?.();
    await Promise.all(
      lines.map(({ own, open, failed }) => own?.end({ timeout: open > 0 || failed ? 0 : 1 })),
    );
  }

  async #inTime(
    what: string,
    send: (client: SqlClient) => SqlQuery,
    onLate: (rows: readonly SqlRow[]) => void = () => {},
  ): Promise<readonly SqlRow[]> {
    if (this.#closed) throw new MailboxClosedError(`${this.server} is closed here`);
    const line = this.#line ??= this.#open();
    const expired = deferred<undefined>();
    const cancel = this.#clock.schedule(this.#timeoutMs, () => expired.resolve(undefined));
    line.open++;
    const query = send(line.client);
    const answer = Promise.resolve(query).finally(() => this.#answered(line));
    try {
      const rows = await Promise.race([answer, expired.promise]);
      if (rows !== undefined) return rows;
    } catch (error) {
      line.failed = true;
      throw error;
    } finally {
      cancel();
    }
    answer.then(onLate, () => {}); // that it failed in the end was said by now
    this.#putAside(line);
    // What still waits for a connection is not to happen any more when there is one. Only here: the
    // client forgets the connection that was made for it.
    if (line.own !== undefined && query.state === null) query.cancel?.();
    throw timeoutError(this.server, what, this.#timeoutMs);
  }

  #open(): Line {
    const { given } = this.#server;
    if (given !== undefined) return { client: given, own: undefined, open: 0, failed: false };
    const own = this.#server.connect(this.#connections);
    return { client: own, own, open: 0, failed: false };
  }

  #putAside(line: Line): void {
    if (line.own === undefined || this.#line !== line) return;
    this.#line = undefined;
    this.#aside.add(line);
    line.giveUp = this.#clock.schedule(LATE_MS, () => this.#end(line));
  }

  #answered(line: Line): void {
    if (--line.open === 0 && this.#aside.has(line)) this.#end(line);
  }

  #end(line: Line): void {
    line.giveUp?.();
    this.#aside.delete(line);
    line.own?.end({ timeout: 0 }).catch(() => {}); // it is of no use any more, ended or not
  }
}
