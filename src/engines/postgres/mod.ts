/**
 * Mailboxes in a PostgreSQL table.
 *
 * @module
 */

export type { SqlClient, SqlParameter, SqlQuery, SqlRow } from "./client.ts";
export { PostgresMailbox, type PostgresMailboxOptions } from "./postgres_mailbox.ts";
