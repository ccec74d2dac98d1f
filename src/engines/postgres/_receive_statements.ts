import { COLUMNS } from "./_control_statements.ts";
import { EXPIRIES } from "./_version_six.ts";

/** The statements that deliver messages, and those that make them visible before. */
export interface ReceiveStatements {
  readonly receive: string;
  readonly receiveControlled: string;
  readonly nextDue: string;
  readonly makeDueReady: string;
  readonly joinKeys: string;
  readonly releaseLost: string;
  readonly wait: string;
  readonly withdraw: string;
  readonly findHanded: string;
  readonly releaseHanded: string;
  readonly confirm: string;
}

/** The columns that a receive returns for each message. */
const DELIVERED = `${COLUMNS}, priority, key as line, expiries as expired,
        (select floor(date_part('epoch', now()) * 1000)::text) as now`;

/**
 * Returns the statements for a schema. `inLine` is the order of the index `messages_line`, and `relaxed` the
 * condition that does not wait for the disk.
 */
export function receiveStatements(
  schema: string,
  inLine: string,
  relaxed: string,
): ReceiveStatements {
  const messages = `"${schema}".messages`;
  const controls = `"${schema}".controls`;
  const waiting = `"${schema}".waiting`;

  // The range instead of an equality makes `messages_line` the only index that gives the order. The
  // statement receives nothing while a hidden message is due, because that one may be older: `makeDueReady`
  // has to run first. Parameter 5 skips this check, because another worker may have locked the due
  // message. The update finds its rows by their place in the table, which needs no index and no statistics. A row
  // that moved before it was locked is left to the next receive.
  const lease = (limit: string, controlled: string) =>
    `oldest as materialized (
        select ctid from ${messages}
        where queue = $1::text and receipt is null and visible_at <= '-infinity' and
          ($5::text::boolean or not exists (
            select from ${messages} where queue = $1::text and receipt is null and
              visible_at > '-infinity' and visible_at <= now()
          ) and not exists (
            select from ${messages}
            where queue = $1::text and receipt is not null and visible_at <= now()
          )) and not exists (
            select from ${controls} where queue = $1::text and ${controlled})
          and ${relaxed}
        order by ${inLine} limit ${limit} for update skip locked
      )`;
  const leased = `update ${messages} set receipt = $4::text::bigint, attempts = attempts + 1,
        visible_at = now() + $3::text::float8 * interval '1 ms'
      where ctid = any(array(select ctid from oldest)) returning ${DELIVERED}`;

  return {
    // Receives nothing from a queue with a pause or a rate limit. So other queues pay nothing for them.
    receive: `with ${
      lease("$2::text::bigint", "(key is null or not $5::text::boolean)")
    } ${leased}`,

    // For a queue with a pause or a rate limit. Returns at least one row, which has no message if there is
    // none to deliver. `wait` is null when there is neither a pause nor a limit any more.
    receiveControlled: `with allowed as materialized (
        select * from "${schema}".allowance($1::text, $2::text::bigint) where ${relaxed}
      ), ${lease("(select allowed from allowed)", "key is not null and not $5::text::boolean")},
      leased as (${leased}),
      counted as materialized (
        select "${schema}".count_deliveries($1::text, (select count(*) from leased)) as total
      )
      select allowed.wait, counted.total, leased.*
      from allowed cross join counted left join leased on true`,

    // Without a time when the queue is empty; 0 when a message is ready but another worker has locked it.
    nextDue: `select (case
          when next.at > '-infinity'
            then (extract(epoch from next.at) - extract(epoch from clock_timestamp())) * 1000
          when next.at is not null then 0
        end)::float8 as ms, first.leased is not null as flying, exists (
          select from ${messages} where queue = $1::text and key is not null and place is null and
            visible_at <= clock_timestamp()
        ) or exists (
          select from ${controls} where queue = $1::text and key is not null
        ) as joins, exists (
          select from ${controls} where queue = $1::text and key is null
        ) as controlled
      from (
        select (
          select visible_at from ${messages} where queue = $1::text and receipt is null
          order by ${inLine} limit 1
        ) as unleased, (
          select visible_at from ${messages} where queue = $1::text and receipt is not null
          order by visible_at, (id + 0) limit 1
        ) as leased
      ) as first cross join lateral (select least(unleased, leased) as at) as next`,

    // Messages that have not joined the line of their key are left to `joinKeys`.
    makeDueReady: `with due as materialized (
        select id from ${messages}
        where queue = $1::text and receipt is null and visible_at > '-infinity' and
          visible_at <= now() and (key is null or place is not null)
        order by ${inLine} limit 10000 for update skip locked
      ), expired as materialized (
        select id from ${messages}
        where queue = $1::text and receipt is not null and visible_at <= now()
        order by visible_at, (id + 0) limit 10000 for update skip locked
      )
      update ${messages} set visible_at = '-infinity', receipt = null,
        expiries = ${EXPIRIES}
      where id = any(array(select id from due union all select id from expired))`,
    joinKeys: `select advanced::int as advanced from "${schema}".join_keys($1::text)`,

    // Releases the messages of receives whose reply was lost.
    releaseLost: `update ${messages} set visible_at = '-infinity', receipt = null,
        attempts = attempts - 1
      where queue = $1::text and receipt is not null and visible_at > now() and
        receipt = any($2::text::bigint[])`,

    // Also removes the registrations of processes that have died. A send uses them only until they end.
    wait: `with old as (
        delete from ${waiting} where receipt = any(array(
          select receipt from ${waiting}
          where queue = $2::text and ends_at < now() - interval '1 minute' for update skip locked
        ))
      )
      insert into ${waiting} (receipt, queue, inbox, ends_at) select $1::text::bigint, $2::text,
        $3::text, clock_timestamp() + $4::text::float8 * interval '1 ms' where ${relaxed}`,
    withdraw: `with ended as (
        delete from ${waiting} where receipt = $1::text::bigint and ${relaxed} returning receipt
      )
      select receipt::text as receipt from ended`,

    // Not a part of `withdraw`, which may have waited for the send that stored the message and has an older snapshot.
    findHanded: `select id::text as number from ${messages}
      where queue = $1::text and receipt is not null and visible_at > now() and
        receipt = $2::text::bigint and attempts = 0`,
    releaseHanded: `update ${messages} set visible_at = '-infinity', receipt = null
      where queue = $1::text and receipt is not null and visible_at > now() and
        receipt = $2::text::bigint and attempts = 0 and ${relaxed} returning id::text as number`,
    // When it is repeated, the lease may have been extended.
    confirm: `update ${messages} set attempts = 1, visible_at = case attempts
        when 0 then clock_timestamp() + $3::text::float8 * interval '1 ms' else visible_at end
      where id = any(array[$1::text::bigint]) and (receipt = $2::text::bigint) is true and
        visible_at > clock_timestamp() and ${relaxed}
      returning ${DELIVERED}`,
  };
}
