/** What is bound to a statement here: everything travels as text, and the statement says what it is. */
export type SqlParameter = string | null;

/** A row of an answer. */
export type SqlRow = Readonly<Record<string, unknown>>;

/** A statement and its answer. */
export interface SqlQuery extends PromiseLike<readonly SqlRow[]> {
  /** Null as long as it was not sent. */
  readonly state?: unknown;
  /** Takes it back. */
  cancel?(): void;
}

/** What is used of a client. That of the package `postgres` fits as it is. */
export interface SqlClient {
  /** Sends one statement. */
  unsafe(
    query: string,
    parameters?: SqlParameter[],
    options?: { prepare?: boolean },
  ): SqlQuery;
  /** Listens to a channel until told otherwise, through lost connections too. */
  listen(
    channel: string,
    onNotify: (payload: string) => void,
    onListen?: () => void,
  ): Promise<{ unlisten(): Promise<void> }>;
}

/** A client that was made here, and that ends here. */
export interface OwnClient extends SqlClient {
  /** Ends it, waiting for what is under way for `timeout` seconds. */
  end(options: { timeout: number }): Promise<void>;
}
