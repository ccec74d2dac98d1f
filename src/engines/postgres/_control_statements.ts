import type { EngineStats } from "../../mailbox/engine.ts";
import type { SqlRow } from "./client.ts";

/** The statements that look at a queue as a whole or find messages by their ids. */
export interface ControlStatements {
  readonly peek: string;
  readonly find: string;
  readonly cancel: string;
  readonly deliverNow: string;
  readonly count: string;
  readonly stats: string;
  readonly pause: string;
  readonly resume: string;
  readonly limit: string;
  readonly unlimit: string;
  readonly purge: string;
  readonly queues: string;
  readonly drop: string;
}

/** The columns of a message. Names of one word survive the name transforms of a client. */
export const COLUMNS: string =
  `id::text as number, message_id as id, body, envelope as meta, attempts as count,
  floor(date_part('epoch', enqueued_at) * 1000)::bigint as enqueued, checkpoint`;

/** The state of a message; blocked messages have a `visible_at` of `infinity`. */
const STATE = `case when visible_at <= clock_timestamp() or visible_at = 'infinity' then 'waiting'
  when receipt is null then 'delayed' else 'inFlight' end`;

/** Returns the statements for a schema. `inLine` is the order of the index `messages_line`. */
export function controlStatements(schema: string, inLine: string): ControlStatements {
  const messages = `"${schema}".messages`;
  const controls = `"${schema}".controls`;
  const remembered = `"${schema}".remembered`;

  // All messages of a queue, by both indexes. A message that is received meanwhile is in one of them.
  const ofQueue = (columns: string, queue = "$1::text") =>
    `select ${columns} from ${messages} where queue = ${queue} and receipt is null
      union all
      select ${columns} from ${messages} where queue = ${queue} and receipt is not null`;

  const byId = `(select * from ${messages}
        where queue = $1::text and message_id = $2::text and chosen)
      union all
      (select * from ${messages}
        where hashtextextended(message_id, 0) = hashtextextended($2::text, 0) and
          message_id = $2::text and queue = $1::text and not chosen and receipt is null
        order by id + 0 limit 1)
      union all
      (select * from ${messages}
        where queue = $1::text and receipt is not null and message_id = $2::text and not chosen
        order by id + 0 limit 1)`;

  // Dead letters may have the same id.
  const first = `select * from (${byId}) as matches
      order by chosen desc, receipt is not null, id limit 1`;

  // The numbers of the oldest messages that are ready or blocked: the index has them by priority.
  const limit = "limit $2::text::bigint + $3::text::bigint";
  const oldest = (visibleAt: string) =>
    `select found.id from generate_series(-9, 0) as level cross join lateral (
          select id from ${messages}
          where queue = $1::text and receipt is null and visible_at = '${visibleAt}' and
            -priority = level
          order by ${inLine} ${limit}
        ) as found`;

  return {
    // The index returns the oldest ready and blocked messages; only the hidden ones are sorted.
    peek: `select ${COLUMNS}, ${STATE} as state from ${messages} where id = any(array(
        select id from (
          ${oldest("-infinity")}
          union all
          ${oldest("infinity")}
          union all
          (select id from ${messages} where queue = $1::text and receipt is null and
              visible_at > '-infinity' and visible_at < 'infinity'
            order by id + 0 ${limit})
          union all
          (select id from ${messages} where queue = $1::text and receipt is not null
            order by id + 0 ${limit})
        ) as oldest order by id limit $2::text::bigint offset $3::text::bigint
      )) order by messages.id`,
    find: `select ${COLUMNS}, ${STATE} as state from (${first}) as found`,

    // A message of a key that has not joined its line is due now: the next receive lets it join, and a
    // message that is sent before that joins behind it. The conditions are written so that no index but the key fits.
    deliverNow: `update ${messages}
      set visible_at = case when key is not null and place is null then clock_timestamp()
        else '-infinity' end
      where id = any(array(select id from (${first}) as found)) and num_nulls(receipt) = 1 and
        visible_at + interval '0' > clock_timestamp() and visible_at + interval '0' < 'infinity'
      returning id::text as number`,
    cancel: `select cancelled, in_flight as held, advanced::int as advanced
      from "${schema}".cancel($1::text, $2::text, $3::text, $4::text)`,
    count: `select count(*)::float8 as count from (${ofQueue("id")}) as message`,
    stats: `select counted.*, (case when queue is null then 0 else (
          extract(epoch from coalesce(paused_until, 'infinity')) -
          extract(epoch from clock_timestamp())
        ) * 1000 end)::float8 as paused, max_deliveries as most, period_ms as period
      from (
        select count(*) filter (where state = 'waiting')::float8 as waiting,
          count(*) filter (where state = 'delayed')::float8 as delayed,
          count(*) filter (where state = 'inFlight')::float8 as flying,
          (extract(epoch from clock_timestamp() - min(enqueued_at) filter (where state = 'waiting'))
            * 1000)::float8 as oldest
        from (${ofQueue(`${STATE} as state, enqueued_at`)}) as message
      ) as counted left join ${controls} on queue = $1::text and key is null`,

    // Never shortens a pause. A pause of an earlier version has no end.
    pause: `insert into ${controls} as control (queue, paused_until)
      values ($1::text, case when $2::text::float8 < 'infinity'
        then clock_timestamp() + $2::text::float8 * interval '1 ms' else 'infinity' end)
      on conflict (queue) where key is null do update set paused_until =
        greatest(coalesce(control.paused_until, 'infinity'), excluded.paused_until)`,
    resume: `with resumed as (
        delete from ${controls} where queue = $1::text and key is null and max_deliveries is null
      )
      update ${controls} set paused_until = '-infinity'
      where queue = $1::text and key is null and max_deliveries is not null`,

    // What was delivered before counts under a new limit with the same period.
    limit: `insert into ${controls} as control (queue, paused_until, max_deliveries, period_ms)
      values ($1::text, '-infinity', $2::text::int, $3::text::float8)
      on conflict (queue) where key is null do update set
        max_deliveries = excluded.max_deliveries, period_ms = excluded.period_ms,
        parts = case when control.period_ms = excluded.period_ms then control.parts end,
        counts = case when control.period_ms = excluded.period_ms then control.counts end`,
    unlimit: `with unlimited as (
        delete from ${controls}
        where queue = $1::text and key is null and paused_until <= clock_timestamp()
      )
      update ${controls} set max_deliveries = null, period_ms = null, parts = null, counts = null
      where queue = $1::text and key is null and
        coalesce(paused_until, 'infinity') > clock_timestamp()`,

    // A sender may store a message behind one that this deletes, so `joinKeys` has to look at the keys.
    purge: `with removed as (
        delete from ${messages} where id = any(array(${ofQueue("id")})) returning key
      ), freed as (
        insert into ${controls} (queue, key)
        select $1::text, '' where exists (select from removed where key is not null) returning queue
      ), forgotten as (
        delete from ${remembered} where queue = $1::text
      )
      select count(*)::float8 as count, exists (select from freed) as joins from removed`,

    // Goes from name to name in the index: a queue may have many messages.
    queues: `with recursive names as (
        select '' as queue
        union all
        select least((
          select queue from ${messages} where receipt is null and queue > names.queue
          order by queue limit 1
        ), (
          select queue from ${messages} where receipt is not null and queue > names.queue
          order by queue limit 1
        )) from names where queue is not null
      )
      select distinct regexp_replace(queue, '(\\.dead)+$', '') as name from (
        select queue from names where queue <> '' union
        select queue from ${controls} where key is null and (max_deliveries is not null or
          coalesce(paused_until, 'infinity') > clock_timestamp())
      ) as all_names order by 1`,
    drop: `with dropped as (
        delete from ${messages} where id = any(array(
          ${ofQueue("id")} union all ${ofQueue("id", "$1::text || '.dead'")}
        ))
      ), resumed as (
        delete from ${controls} where queue = $1::text
      )
      delete from ${remembered} where queue = $1::text`,
  };
}

/** Returns what the statement `stats` has counted. */
export function statsOf(row: SqlRow): EngineStats {
  const { waiting, delayed, flying, oldest, paused, most, period } = row;
  const pausedForMs = Number(paused);
  return {
    waiting: Number(waiting),
    delayed: Number(delayed),
    inFlight: Number(flying),
    paused: pausedForMs > 0,
    ...(pausedForMs > 0 && pausedForMs < Infinity && { pausedForMs }),
    ...(most !== null && { rateLimit: { max: Number(most), perMs: Number(period) } }),
    ...(oldest !== null && { oldestWaitingMs: Math.max(0, Number(oldest)) }),
  };
}
