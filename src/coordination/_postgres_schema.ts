import type { PostgresCalls } from "../engines/postgres/postgres_link.ts";
import { MailboxConnectionError } from "../mailbox/errors.ts";

/** The version of the board tables that this package knows. */
export const BOARD_VERSION = 1;

/**
 * Migrates the board tables, or only checks their version when `migrate` is false. The table and its
 * function keep the names of version 1, which call a member an agent.
 *
 * @throws {MailboxConnectionError} if the tables are newer than this package, or older and not migrated
 */
export async function prepareBoardSchema(
  calls: PostgresCalls,
  schema: string,
  migrate: boolean,
): Promise<void> {
  const version = await readVersion(calls, schema);
  if (version === BOARD_VERSION) return;
  if (version > BOARD_VERSION) {
    throw new MailboxConnectionError(
      `The boards in the schema "${schema}" of ${calls.server} have version ${version} and this ` +
        `package knows ${BOARD_VERSION}: update the package`,
    );
  }
  if (!migrate) {
    throw new MailboxConnectionError(
      `The boards in the schema "${schema}" of ${calls.server} have version ${version} and this ` +
        `package needs ${BOARD_VERSION}: open one once without \`migrate: false\``,
      { reason: version === 0 ? "schema_missing" : "schema_outdated" },
    );
  }
  await calls.run("migrate", migration(schema));
}

async function readVersion(calls: PostgresCalls, schema: string): Promise<number> {
  const [table] = await calls.call(
    "read the version of the boards",
    "select to_regclass($1::text) is not null as there",
    [`"${schema}".board_migrations`],
  );
  if (table?.there !== true) return 0;
  const [row] = await calls.call(
    "read the version of the boards",
    `select coalesce(max(version), 0)::int as version from "${schema}".board_migrations
      where $1::text <> ''`,
    [schema],
  );
  return Number(row?.version);
}

/** One statement is one transaction. A concurrent migration waits for the lock and has nothing to do. */
function migration(schema: string): string {
  return `do $migration$
begin
  perform set_config('client_min_messages', 'warning', true);
  perform pg_advisory_xact_lock(hashtextextended('lastcall migration ${schema}', 0));
  create table if not exists "${schema}".board_migrations (
    version int primary key,
    applied_at timestamptz not null default now()
  );
  if not exists (select from "${schema}".board_migrations where version >= 1) then
    ${versionOne(schema)}
    insert into "${schema}".board_migrations (version) values (1);
  end if;
end $migration$`;
}

function versionOne(schema: string): string {
  return `create sequence "${schema}".board_versions;
    create table "${schema}".agents (
      board text not null,
      agent_id text not null,
      state text not null,
      detail json not null,
      updated_at timestamptz not null,
      seen_at timestamptz not null,
      version bigint not null,
      primary key (board, agent_id)
    ) with (
      -- Touches update a row often: leave room for them on the same page.
      fillfactor = 50
    );
    create index agents_version on "${schema}".agents (board, version);

    -- Writes the allowed entries and returns the statuses before. One writer at a time, so that versions
    -- become visible in their order. This is a function because a single statement would read the rows as
    -- they were before it got the lock.
    create function "${schema}".put_agents(
      board_name text, ids text[], states text[], details text[], allowed text[]
    ) returns text[] language plpgsql volatile as $put$
    declare
      before text[] := '{}';
      was text;
    begin
      perform pg_advisory_xact_lock(hashtextextended('lastcall board ${schema} ' || board_name, 0));
      for i in 1 .. cardinality(ids) loop
        select case
            when state not in ('running', 'shutting_down', 'shutdown_complete') or
              json_typeof(detail) <> 'object' then 'corrupt'
            else state
          end into was from "${schema}".agents where board = board_name and agent_id = ids[i];
        was := coalesce(was, 'unknown');
        before := before || was;
        if was = any(string_to_array(allowed[i], ' ')) then
          insert into "${schema}".agents as stored values (
            board_name, ids[i], states[i], details[i]::json, clock_timestamp(), clock_timestamp(),
            nextval('"${schema}".board_versions')
          ) on conflict (board, agent_id) do update set
            state = excluded.state, detail = excluded.detail, updated_at = excluded.updated_at,
            seen_at = excluded.seen_at, version = excluded.version;
        end if;
      end loop;
      return before;
    end $put$;`;
}
