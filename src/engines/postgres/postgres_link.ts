/**
 * The PostgreSQL connections of the mailboxes, for other parts of the package that store data there.
 *
 * @module
 */

import type { Log } from "../../log.ts";
import { Database, type DatabaseOptions } from "./_database.ts";
import { checkSchema } from "./_schema.ts";

export type { Calls as PostgresCalls } from "./_calls.ts";
export { arrayLiteral } from "./_statements.ts";

/** A schema of a database. Mailboxes with the same options share it. */
export type PostgresLink = Database;

/** Opens a schema and creates it if it does not exist. The caller has to call `letGo` in the end. */
export async function openPostgresLink(
  options: DatabaseOptions,
  migrate: boolean,
  log: Log,
): Promise<PostgresLink> {
  const link = Database.of({ ...options, schema: checkSchema(options.schema) }, log);
  await link.open(migrate);
  return link;
}
