import { FREE_RELEASES } from "../../mailbox/engine.ts";

/** All statements on the table, by name. */
export interface Statements {
  readonly send: string;
  readonly sendBounded: string;
  readonly receive: string;
  readonly nextDue: string;
  readonly makeDueReady: string;
  readonly releaseLost: string;
  readonly acknowledge: string;
  readonly extend: string;
  readonly nack: string;
  readonly release: string;
  readonly deadLetter: string;
  readonly checkpoint: string;
  readonly nonces: string;
  readonly peek: string;
  readonly count: string;
  readonly purge: string;
  readonly notify: string;
}

const COLUMNS = `id::text as key, message_id as id, body, meta, attempts as count,
  (extract(epoch from enqueued_at) * 1000)::float8 as enqueued, checkpoint`;

/** Returns the `visible_at` for a delay in milliseconds. Without a delay the message is ready. */
const due = (ms: string) =>
  `case when ${ms} = 0 then '-infinity' else clock_timestamp() + ${ms} * interval '1 ms' end`;

/**
 * Returns the statements for a schema, whose name must be checked before. All other values are text
 * parameters with a cast, so that every client sends them alike. All times are by the server's clock.
 *
 * A ready message has a `visible_at` of `-infinity`. Ready messages are ordered by `id`, which never
 * changes. Any other `visible_at` is the end of a delay or a lease. A leased message has a `receipt`, the
 * nonce of its receipt handle.
 */
export function statementsFor(schema: string): Statements {
  const messages = `"${schema}".messages`;

  // The order of the index `messages_line`. It contains no plain id, so that only the primary key finds ids.
  const inLine = "visible_at, (id + 0)";

  // Only unexpired leases can settle. `id = any(…)` finds the rows by their primary key whatever the
  // statistics say, which a join with the pairs does not. `is true` makes the planner hash the pairs,
  // also in a generic plan.
  const held = `id = any($1::text::bigint[]) and visible_at > clock_timestamp() and
    ((id, receipt) in (select * from unnest($1::text::bigint[], $2::text::bigint[]))) is true`;

  // A crash of the server that loses a lease or a notification costs at most a second delivery, so these
  // do not wait for the disk. Sends and settlements do.
  const relaxed = "(select set_config('synchronous_commit', 'off', true)) = 'off'";

  const entries = `unnest($2::text::text[], $3::text::boolean[], $4::text::text[],
      $5::text::float8[], $6::text::text[], $7::text::text[])
    with ordinality as entry (message_id, chosen, body, delay, meta, checkpoint, place)`;

  // `order by place` numbers the messages in the order of sending.
  const store = (condition: string) =>
    `insert into ${messages} (queue, message_id, chosen, body, visible_at, meta, checkpoint)
    select $1::text, message_id, chosen, body, ${due("delay")}, meta, checkpoint
    from ${entries} ${condition} order by place
    on conflict (queue, message_id) where chosen do nothing returning message_id, chosen`;

  // The stored chosen ids as JSON, because not every client parses arrays.
  const ids = "(select json_agg(message_id)::text from stored where chosen) as ids";

  return {
    send: `with stored as (${store("")}) select ${ids}`,

    // The function takes a lock until the commit, then counts with a new snapshot.
    sendBounded: `with room as materialized (
        select * from "${schema}".room($1::text, $2::text::text[], $3::text::boolean[], $8::text::bigint)
      ), stored as (${store("where (select size + fresh <= $8::text::bigint from room)")})
      select size::float8 as size, fresh::float8 as fresh, ${ids} from room`,

    // The range instead of an equality makes `messages_line` the only index that gives the order. The
    // statement receives nothing while a hidden message is due, because that one may be older: `makeDueReady`
    // has to run first. Parameter 5 skips this check, because another worker may have locked the due
    // message. The update finds its rows by primary key: a join would depend on stale statistics.
    receive: `with oldest as materialized (
        select id from ${messages}
        where queue = $1::text and visible_at <= '-infinity' and ($5::text::boolean or not exists (
          select from ${messages}
          where queue = $1::text and visible_at > '-infinity' and visible_at <= now()))
          and ${relaxed}
        order by ${inLine} limit $2::text::bigint for update skip locked
      )
      update ${messages} set receipt = $4::text::bigint, attempts = attempts + 1,
        visible_at = now() + $3::text::float8 * interval '1 ms'
      where id = any(array(select id from oldest)) returning ${COLUMNS}`,

    // No row when the queue is empty; 0 when a message is ready but another worker has locked it.
    nextDue: `select case when visible_at > '-infinity'
        then (extract(epoch from visible_at) - extract(epoch from clock_timestamp())) * 1000
        else 0 end::float8 as ms
      from ${messages} where queue = $1::text order by ${inLine} limit 1`,

    makeDueReady: `with due as materialized (
        select id from ${messages}
        where queue = $1::text and visible_at > '-infinity' and visible_at <= now()
        order by ${inLine} limit 10000 for update skip locked
      )
      update ${messages} set visible_at = '-infinity', receipt = null
      where id = any(array(select id from due))`,

    // Releases the messages of receives whose reply was lost.
    releaseLost: `update ${messages} set visible_at = '-infinity', receipt = null,
        attempts = attempts - 1
      where queue = $1::text and visible_at > now() and receipt = any($2::text::bigint[])`,

    acknowledge: `delete from ${messages} where ${held} returning id::text as key`,
    extend: `update ${messages} set visible_at = greatest(visible_at,
        clock_timestamp() + $3::text::float8 * interval '1 ms')
      where ${held} and ${relaxed} returning id::text as key`,
    nack: `update ${messages} set visible_at = ${due("$3::text::float8")}, receipt = null,
        attempts = attempts - $4::text::int
      where ${held} returning id::text as key`,
    release: `update ${messages} set visible_at = '-infinity', receipt = null,
        releases = releases + 1, attempts = attempts - (releases < ${FREE_RELEASES})::int
      where ${held} returning id::text as key`,
    checkpoint: `update ${messages} set checkpoint = $3::text
      where ${held} returning id::text as key`,

    deadLetter: `with removed as (
        delete from ${messages} where ${held} returning id, queue
      ), letter as (
        insert into ${messages} (queue, message_id, chosen, body, visible_at, meta)
        select queue || '.dead', $3::text, false, $4::text, '-infinity', $5::text from removed
      )
      select id::text as key from removed`,

    nonces: `select id::text as key, receipt::text as nonce from ${messages}
      where id = any($1::text::bigint[])`,

    // The index returns the oldest ready messages; only the hidden ones are sorted.
    peek: `select ${COLUMNS} from (
        (select * from ${messages} where queue = $1::text and visible_at <= '-infinity'
          order by ${inLine} limit $2::text::bigint)
        union all
        (select * from ${messages} where queue = $1::text and visible_at > '-infinity'
          order by id + 0 limit $2::text::bigint)
      ) as oldest order by oldest.id limit $2::text::bigint`,
    count: `select count(*)::float8 as count from ${messages} where queue = $1::text`,
    purge: `with removed as (delete from ${messages} where queue = $1::text returning 1)
      select count(*)::float8 as count from removed`,

    notify: `select pg_notify($1::text, $2::text || ' ' || queue)
      from unnest($3::text::text[]) as woken (queue) where ${relaxed}`,
  };
}

/**
 * Returns an array as a PostgreSQL array literal. Clients differ in how they send arrays, but not in how
 * they send text.
 */
export function arrayLiteral(values: readonly (string | number | boolean | null)[]): string {
  return `{${values.map(arrayElement).join(",")}}`;
}

function arrayElement(value: string | number | boolean | null): string {
  if (typeof value !== "string") return String(value); // `null`, `true` and `1` need no quotes
  return `"${value.replace(/["\\]/g, "\\$&")}"`;
}
