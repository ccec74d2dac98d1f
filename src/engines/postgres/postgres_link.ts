/**
 * The connections of the mailboxes in PostgreSQL, for other parts of the package that keep something
 * there.
 *
 * @module
 */

import type { Log } from "../../log.ts";
import { Database, type DatabaseOptions } from "./_database.ts";
import { checkSchema } from "./_schema.ts";

export { arrayLiteral } from "./_array_literal.ts";
export type { Calls as PostgresCalls } from "./_calls.ts";

/** A schema of a database, which mailboxes with the same options share. */
export type PostgresLink = Database;

/** Opens it, and makes the schema where it is not there. Whoever opens it lets go of it in the end. */
export async function openPostgresLink(
  options: DatabaseOptions,
  migrate: boolean,
  log: Log,
): Promise<PostgresLink> {
  const link = Database.of({ ...options, schema: checkSchema(options.schema) }, log);
  await link.open(migrate);
  return link;
}
