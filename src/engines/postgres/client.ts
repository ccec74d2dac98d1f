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
  /** Listens to a channel until `unlisten`, and again after a reconnect. */
  listen(
    channel: string,
    onNotify: (payload: string) => void,
    onListen?: () => void,
  ): Promise<{ unlisten(): Promise<void> }>;
}

/** A client that this package created and has to end. */
export interface OwnClient extends SqlClient {
  /** Ends the client after at most `timeout` seconds for pending statements. */
  end(options: { timeout: number }): Promise<void>;
}
