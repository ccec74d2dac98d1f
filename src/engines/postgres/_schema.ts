import { show } from "../../_checks.ts";
import { InvalidParameterError, MailboxConnectionError } from "../../mailbox/errors.ts";
import type { Calls } from "./_calls.ts";
import { versionFive } from "./_version_five.ts";
import { versionFour } from "./_version_four.ts";
import { versionSix } from "./_version_six.ts";

/** The schema version of this package. */
export const SCHEMA_VERSION = 6;

/** Throws for a name that needs quoting, because statements contain the schema name literally. */
export function checkSchema(name: string): string {
  if (typeof name === "string" && /^[a-z_][a-z0-9_]{0,47}$/.test(name)) return name;
  throw new InvalidParameterError(
    `Invalid schema: expected 1 to 48 lower-case letters, digits or _, got ${show(name)}`,
  );
}

/**
 * Migrates the schema to the current version, or with `migrate` false only checks its version. Throws for
 * a newer version and changes nothing then.
 */
export async function prepareSchema(calls: Calls, schema: string, migrate: boolean): Promise<void> {
  const version = await readVersion(calls, schema);
  if (version === SCHEMA_VERSION) return;
  if (!migrate) {
    throw new MailboxConnectionError(
      `The schema "${schema}" of ${calls.server} has version ${version} and this package needs ` +
        `${SCHEMA_VERSION}: open it once without \`migrate: false\``,
      { reason: version === 0 ? "schema_missing" : "schema_outdated" },
    );
  }
  await calls.run("migrate", migration(schema));
  await readVersion(calls, schema);
}

async function readVersion(calls: Calls, schema: string): Promise<number> {
  const [table] = await calls.call(
    "read the version of the schema",
    "select to_regclass($1::text) is not null as there",
    [`"${schema}".migrations`],
  );
  if (table?.there !== true) return 0;
  const [row] = await calls.call(
    "read the version of the schema",
    `select coalesce(max(version), 0)::int as version from "${schema}".migrations where $1::text <> ''`,
    [schema],
  );
  const version = Number(row?.version);
  if (version > SCHEMA_VERSION) {
    throw new MailboxConnectionError(
      `The schema "${schema}" of ${calls.server} has version ${version} and this package knows ` +
        `${SCHEMA_VERSION}: update the package in this program`,
    );
  }
  return version;
}

/**
 * Returns the migration as one statement, which is one transaction. A second process waits for the lock and
 * then finds the schema up to date. Each step leads to the next version; a released step never changes.
 */
function migration(schema: string): string {
  return `do $migration$
declare
  version_now int;
begin
  perform set_config('client_min_messages', 'warning', true);
  perform pg_advisory_xact_lock(hashtextextended('lastcall migration ${schema}', 0));
  create schema if not exists "${schema}";
  create table if not exists "${schema}".migrations (
    version int primary key,
    applied_at timestamptz not null default now()
  );
  select coalesce(max(version), 0) into version_now from "${schema}".migrations;
  if version_now < 1 then
    ${versionOne(schema)}
    insert into "${schema}".migrations (version) values (1);
  end if;
  if version_now < 2 then
    ${versionTwo(schema)}
    insert into "${schema}".migrations (version) values (2);
  end if;
  if version_now < 3 then
    ${versionThree(schema)}
    insert into "${schema}".migrations (version) values (3);
  end if;
  if version_now < 4 then
    ${versionFour(schema)}
    insert into "${schema}".migrations (version) values (4);
  end if;
  if version_now < 5 then
    ${versionFive(schema)}
    insert into "${schema}".migrations (version) values (5);
  end if;
  if version_now < 6 then
    ${versionSix(schema)}
    insert into "${schema}".migrations (version) values (6);
  end if;
end $migration$`;
}

function versionOne(schema: string): string {
  return `create table "${schema}".messages (
      id bigint generated always as identity primary key,
      queue text not null,
      message_id text not null,
      chosen boolean not null,
      body text not null,
      visible_at timestamptz not null,
      receipt bigint,
      attempts int not null default 0,
      releases int not null default 0,
      reply_to text,
      enqueued_at timestamptz not null default clock_timestamp(),
      checkpoint text
    ) with (
      -- Every row is updated once and then deleted: leave space for the update on the same page, and
      -- vacuum after a fixed number of dead rows instead of a fifth of the table.
      fillfactor = 80,
      autovacuum_vacuum_scale_factor = 0.01,
      autovacuum_vacuum_threshold = 1000,
      autovacuum_vacuum_cost_delay = 0,
      autovacuum_analyze_scale_factor = 0.05,
      autovacuum_analyze_threshold = 1000,
      toast.autovacuum_vacuum_scale_factor = 0.01,
      toast.autovacuum_vacuum_threshold = 1000
    );
    create index messages_line on "${schema}".messages (queue, visible_at, id);
    create unique index messages_chosen on "${schema}".messages (queue, message_id) where chosen;

    -- Returns the size of a queue and how many of these ids are new to it, and locks the queue against
    -- other senders until the transaction ends. It is a function, because the snapshot of a single
    -- statement is older than the lock.
    create function "${schema}".room(
      name text, ids text[], chosen_ids boolean[], max_size bigint, out size bigint, out fresh bigint
    ) language plpgsql volatile as $room$
    begin
      perform pg_advisory_xact_lock(hashtextextended('lastcall room ${schema} ' || name, 0));
      select count(*) into size from (
        select from "${schema}".messages where queue = name limit max_size + 1
      ) as counted;
      select count(distinct case when given.chosen then given.id end) +
          count(*) filter (where not given.chosen) into fresh
        from unnest(ids, chosen_ids) as given (id, chosen)
        where not given.chosen or not exists (
          select from "${schema}".messages as stored
          where stored.queue = name and stored.message_id = given.id and stored.chosen
        );
    end $room$;`;
}

/**
 * The index uses an expression, so that the planner cannot use it to find an id. It would do so when the
 * statistics have seen only dead rows, and then read the whole index.
 */
function versionTwo(schema: string): string {
  return `drop index "${schema}".messages_line;
    create index messages_line on "${schema}".messages (queue, visible_at, (id + 0));`;
}

/**
 * The envelope is one value. A worker of version 0.1 that is still connected can settle its messages, but
 * neither send nor receive, because those statements name the dropped column.
 */
function versionThree(schema: string): string {
  return `alter table "${schema}".messages add column meta text;
    update "${schema}".messages set meta = json_build_object('replyTo', reply_to)::text
      where reply_to is not null;
    alter table "${schema}".messages drop column reply_to;`;
}
