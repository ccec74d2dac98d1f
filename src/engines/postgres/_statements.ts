import { FREE_RELEASES } from "../../mailbox/engine.ts";

/** Everything that is ever asked of the table, by name. */
export interface Statements {
  readonly insert: string;
  readonly insertBounded: string;
  readonly take: string;
  readonly nextDue: string;
  readonly surface: string;
  readonly giveBack: string;
  readonly remove: string;
  readonly extend: string;
  readonly retry: string;
  readonly release: string;
  readonly bury: string;
  readonly checkpoint: string;
  readonly receipts: string;
  readonly peek: string;
  readonly count: string;
  readonly purge: string;
  readonly notify: string;
}

const COLUMNS = `id::text as key, message_id as id, body, attempts as count,
  (extract(epoch from enqueued_at) * 1000)::float8 as enqueued, reply_to as address, checkpoint`;

/** When something falls due in so many milliseconds. What is due at once stands in line. */
const due = (ms: string) =>
  `case when ${ms} = 0 then '-infinity' else clock_timestamp() + ${ms} * interval '1 ms' end`;

/**
 * Writes the statements for a schema, whose name is checked elsewhere. All else travels as a parameter,
 * as text that is cast here: so every client sends it alike. Time is the server's alone.
 *
 * A message that stands in line has a `visible_at` of `-infinity`, and its `id` is its place there for
 * good. Any other `visible_at` is when its delay or its lease ends.
 */
export function statementsFor(schema: string): Statements {
  const messages = `"${schema}".messages`;

  // The order of the index of the line, which holds no id to look up: for an id there is the key alone.
  const inLine = "visible_at, (id + 0)";

  // A delivery has a say as long as it holds the lease and the lease lasts. `id = any(…)` leads to the
  // rows by their key whatever the statistics say, which a join with the pairs would not; and `is true`
  // keeps the pairs a table to look them up in, which a plan for any number of them would not.
  const held = `id = any($1::text::bigint[]) and visible_at > clock_timestamp() and
    ((id, receipt) in (select * from unnest($1::text::bigint[], $2::text::bigint[]))) is true`;

  // A lease or a notification that a crash of the server forgets costs a second delivery at the most, so
  // it need not wait for the disk. What was sent or settled does.
  const relaxed = "(select set_config('synchronous_commit', 'off', true)) = 'off'";

  const entries = `unnest($2::text::text[], $3::text::boolean[], $4::text::text[],
      $5::text::float8[], $6::text::text[], $7::text::text[])
    with ordinality as entry (message_id, chosen, body, delay, reply_to, checkpoint, place)`;

  // Numbered in the order in which they were sent.
  const insert = (condition: string) =>
    `insert into ${messages} (queue, message_id, chosen, body, visible_at, reply_to, checkpoint)
    select $1::text, message_id, chosen, body, ${due("delay")}, reply_to, checkpoint
    from ${entries} ${condition} order by place
    on conflict (queue, message_id) where chosen do nothing returning message_id, chosen`;

  // The chosen ids that were stored, as JSON: not every client reads arrays.
  const ids = "(select json_agg(message_id)::text from stored where chosen) as ids";

  return {
    insert: `with stored as (${insert("")}) select ${ids}`,

    // The function takes a lock that lasts until the commit, then counts with a fresh snapshot.
    insertBounded: `with room as materialized (
        select * from "${schema}".room($1::text, $2::text::text[], $3::text::boolean[], $8::text::bigint)
      ), stored as (${insert("where (select size + fresh <= $8::text::bigint from room)")})
      select size::float8 as size, fresh::float8 as fresh, ${ids} from room`,

    // The range instead of an equality makes the index of the line the only one that gives the order.
    // While something is due that is not in line, it is put there first, as its place may be further
    // in front; unless that was tried, because somebody may hold it. The update finds its rows by
    // their keys: joined, it would depend on statistics that are always stale here.
    take: `with taken as materialized (
        select id from ${messages}
        where queue = $1::text and visible_at <= '-infinity' and ($5::text::boolean or not exists (
          select from ${messages}
          where queue = $1::text and visible_at > '-infinity' and visible_at <= now()))
          and ${relaxed}
        order by ${inLine} limit $2::text::bigint for update skip locked
      )
      update ${messages} set receipt = $4::text::bigint, attempts = attempts + 1,
        visible_at = now() + $3::text::float8 * interval '1 ms'
      where id = any(array(select id from taken)) returning ${COLUMNS}`,

    // Nothing when there is nothing; 0 when something is in line, which another worker has locked.
    nextDue: `select case when visible_at > '-infinity'
        then (extract(epoch from visible_at) - extract(epoch from clock_timestamp())) * 1000
        else 0 end::float8 as ms
      from ${messages} where queue = $1::text order by ${inLine} limit 1`,

    surface: `with due as materialized (
        select id from ${messages}
        where queue = $1::text and visible_at > '-infinity' and visible_at <= now()
        order by ${inLine} limit 10000 for update skip locked
      )
      update ${messages} set visible_at = '-infinity', receipt = null
      where id = any(array(select id from due))`,

    // What was taken by pulls whose answers were lost, found among the leased ones.
    giveBack: `update ${messages} set visible_at = '-infinity', receipt = null,
        attempts = attempts - 1
      where queue = $1::text and visible_at > now() and receipt = any($2::text::bigint[])`,

    remove: `delete from ${messages} where ${held} returning id::text as key`,
    extend: `update ${messages} set visible_at = greatest(visible_at,
        clock_timestamp() + $3::text::float8 * interval '1 ms')
      where ${held} and ${relaxed} returning id::text as key`,
    retry: `update ${messages} set visible_at = ${due("$3::text::float8")}, receipt = null,
        attempts = attempts - $4::text::int
      where ${held} returning id::text as key`,
    release: `update ${messages} set visible_at = '-infinity', receipt = null,
        releases = releases + 1, attempts = attempts - (releases < ${FREE_RELEASES})::int
      where ${held} returning id::text as key`,
    checkpoint: `update ${messages} set checkpoint = $3::text
      where ${held} returning id::text as key`,

    bury: `with gone as (
        delete from ${messages} where ${held} returning id, queue, message_id, reply_to
      ), letter as (
        insert into ${messages} (queue, message_id, chosen, body, visible_at, reply_to)
        select queue || '.dead', message_id, false, $3::text, '-infinity', reply_to from gone
      )
      select id::text as key from gone`,

    receipts: `select id::text as key, receipt::text as receipt from ${messages}
      where id = any($1::text::bigint[])`,

    // The oldest in line come by the index; only those that are not in line are sorted.
    peek: `select ${COLUMNS} from (
        (select * from ${messages} where queue = $1::text and visible_at <= '-infinity'
          order by ${inLine} limit $2::text::bigint)
        union all
        (select * from ${messages} where queue = $1::text and visible_at > '-infinity'
          order by id + 0 limit $2::text::bigint)
      ) as oldest order by oldest.id limit $2::text::bigint`,
    count: `select count(*)::float8 as count from ${messages} where queue = $1::text`,
    purge: `with gone as (delete from ${messages} where queue = $1::text returning 1)
      select count(*)::float8 as count from gone`,

    notify: `select pg_notify($1::text, $2::text || ' ' || queue)
      from unnest($3::text::text[]) as woken (queue) where ${relaxed}`,
  };
}
