import { FREE_RELEASES } from "../../mailbox/engine.ts";
import { type ControlStatements, controlStatements } from "./_control_statements.ts";
import { type ReceiveStatements, receiveStatements } from "./_receive_statements.ts";

/** All statements on the table, by name. */
export interface Statements extends ControlStatements, ReceiveStatements {
  readonly send: string;
  readonly sendGenerated: string;
  readonly sendBounded: string;
  readonly handOver: string;
  readonly store: string;
  readonly storeInTransaction: string;
  readonly forgetIds: string;
  readonly acknowledge: string;
  readonly acknowledgeKeyed: string;
  readonly acknowledgeInTransaction: string;
  readonly extend: string;
  readonly extendUnlocked: string;
  readonly nack: string;
  readonly release: string;
  readonly deadLetter: string;
  readonly deadLetterKeyed: string;
  readonly checkpoint: string;
  readonly nonces: string;
  readonly notify: string;
}

/**
 * A condition that is true, and does not let the commit wait for the disk. A crash of the server that loses a
 * lease or a notification costs at most a second delivery. Sends and settlements do wait.
 */
export const RELAXED = "(select set_config('synchronous_commit', 'off', true)) = 'off'";

/** Returns the `visible_at` for a delay in milliseconds. Without a delay the message is ready. */
const due = (ms: string) =>
  `case when ${ms} = 0 then '-infinity' else clock_timestamp() + ${ms} * interval '1 ms' end`;

/** How long a message is leased to the process that it was handed to, until that process confirms it. */
export const CONFIRM_MS = 2_000;

/** The sender of the notifications of a transaction: also the process that runs it has to wake. */
const TRANSACTION = "transaction";

/**
 * Returns the statements for a schema, whose name must be checked before. All other values are text
 * parameters with a cast, so that every client sends them alike. All times are by the server's clock.
 *
 * A ready message has a `visible_at` of `-infinity`. Ready messages are ordered by priority and `id`, which
 * never change. A message with a `visible_at` of `infinity` is blocked by another one with its key. Any other
 * `visible_at` is the end of a delay or a lease. A leased message has a `receipt`, the nonce of its receipt
 * handle.
 *
 * A message with a `key` gets its `place` in the line of the key when it is sent, or when its first delay is
 * over. The message with the lowest place is not blocked.
 */
export function statementsFor(schema: string): Statements {
  const messages = `"${schema}".messages`;
  const controls = `"${schema}".controls`;
  const remembered = `"${schema}".remembered`;

  // The order of the index `messages_line`, which has the messages without a lease; `messages_leased` has the
  // others. They contain no plain id, so that only the primary key finds ids.
  const inLine = "visible_at, (-priority), (id + 0)";

  // Only unexpired leases can settle. `id = any(…)` finds the rows by their primary key whatever the
  // statistics say, which a join with the pairs does not. `is true` makes the planner hash the pairs,
  // also in a generic plan.
  const held = `id = any($1::text::bigint[]) and visible_at > clock_timestamp() and
    ((id, receipt) in (select * from unnest($1::text::bigint[], $2::text::bigint[]))) is true`;

  const entries = `unnest($2::text::text[], $3::text::boolean[], $4::text::text[],
      $5::text::float8[], $6::text::text[], $7::text::text[], $8::text::smallint[])
    with ordinality as entry (message_id, chosen, body, delay, envelope, checkpoint, priority, place)`;

  // `order by place` numbers the messages in the order of sending.
  const waiting = `"${schema}".waiting`;
  const insert = (condition: string) =>
    `insert into ${messages}
      (queue, message_id, chosen, body, visible_at, envelope, checkpoint, priority)
    select $1::text, message_id, chosen, body, ${due("delay")}, envelope, checkpoint, priority
    from ${entries} ${condition} order by entry.place`;
  const insertNew = (condition: string) =>
    `${insert(condition)}
    on conflict (queue, message_id) where chosen do nothing returning message_id, chosen`;

  // The stored chosen ids as JSON, because not every client parses arrays.
  const ids = "(select json_agg(message_id)::text from stored where chosen) as ids";

  const store = (inTransaction: boolean) =>
    `select size::float8 as size, fresh::float8 as fresh, stored as ids, refused
      from "${schema}".store($1::text, $2::text::text[], $3::text::boolean[], $4::text::text[],
        $5::text::float8[], $6::text::text[], $7::text::text[], $8::text::smallint[],
        $9::text::text[], $10::text::bigint[], $11::text::float8[], $12::text::bigint,
        ${inTransaction})`;

  // Joined rows of `settle` have the number of unblocked messages each.
  const settle = (letter: string) =>
    `select unnest(settled)::text as number, advanced::int as advanced from "${schema}".settle(
        $3::text, $4::text::text[], $1::text::bigint[], $2::text::bigint[], ${letter})`;

  return {
    ...controlStatements(schema, inLine),
    ...receiveStatements(schema, inLine, RELAXED),
    send: `with stored as (${insertNew("")}) select ${ids}`,

    // For messages whose ids no sender has chosen: there are no duplicates to look for.
    sendGenerated: insert(""),

    // The function takes a lock until the commit, then counts with a new snapshot.
    sendBounded: `with room as materialized (
        select * from "${schema}".room($1::text, $2::text::text[], $3::text::boolean[], $9::text::bigint)
      ), stored as (${insertNew("where (select size + fresh <= $9::text::bigint from room)")})
      select size::float8 as size, fresh::float8 as fresh, ${ids} from room`,

    // Stores one message without a delay. If a receive waits and would deliver the message now, the message is leased
    // to it for a short time, and the process of that receive is notified. `case` reads the other messages only if a
    // receive waits.
    handOver: `with idle as materialized (
        select receipt from ${waiting} where queue = $1::text and ends_at > now()
        order by ends_at desc limit 1 for update skip locked
      ), taken as (
        delete from ${waiting} where receipt = any(array(select receipt from idle)) and
          case when exists (select from idle) then not exists (
            select from ${messages}
            where queue = $1::text and receipt is null and visible_at <= now()
          ) and not exists (
            select from ${messages}
            where queue = $1::text and receipt is not null and visible_at <= now()
          ) and not exists (
            select from ${controls} where queue = $1::text
          ) else false end
        returning receipt, inbox
      ), stored as (
        insert into ${messages}
          (queue, message_id, chosen, body, visible_at, envelope, checkpoint, priority, receipt)
        select $1::text, message_id, chosen, body, case when receipt is null then '-infinity'
          else clock_timestamp() + interval '${CONFIRM_MS} ms' end, envelope, entry.checkpoint,
          priority, receipt
        from ${entries} left join taken on true
        on conflict (queue, message_id) where chosen do nothing
        returning id, message_id, chosen, receipt
      )
      select ${ids}, (
        select count(pg_notify(inbox, concat_ws(' ', $1::text, receipt, id))::text)
        from stored join taken using (receipt)
      )::int as handed`,

    store: store(false),
    storeInTransaction: `with stored as materialized (${store(true)})
      select *, pg_notify($13::text, '${TRANSACTION} ' || $1::text)::text as woken from stored`,

    // In small batches, without waiting for other processes that do the same.
    forgetIds: `delete from ${remembered} where ctid = any(array(
        select ctid from ${remembered} where forget_at <= now() and ${RELAXED}
        order by forget_at limit $1::text::bigint for update skip locked
      ))`,

    acknowledge: `delete from ${messages} where ${held} returning id::text as number`,
    acknowledgeKeyed: settle("null, null, null"),

    // Takes no lock that others need before the commit, and may see an old snapshot. So it leaves a row by
    // which the next receive unblocks the key.
    acknowledgeInTransaction: `with removed as (
        delete from ${messages} where ${held} returning id, queue, key
      ), freed as (
        insert into ${controls} (queue, key)
        select queue, key from removed where key is not null returning queue
      )
      select id::text as number, (
        select count(pg_notify($3::text, '${TRANSACTION} ' || queue)::text)
        from (select distinct queue from freed) as woken
      ) as woken from removed`,

    extend: `update ${messages} set visible_at = greatest(visible_at,
        clock_timestamp() + $3::text::float8 * interval '1 ms')
      where ${held} and ${RELAXED} returning id::text as number`,

    // Does not wait for a transaction of the caller that has acknowledged the message, and leaves it then.
    extendUnlocked: `with held as materialized (
        select id from ${messages} where ${held}
      ), unlocked as materialized (
        select id from ${messages} where id = any(array(select id from held)) and ${RELAXED}
        for update skip locked
      ), extended as (
        update ${messages} set visible_at = greatest(visible_at,
          clock_timestamp() + $3::text::float8 * interval '1 ms')
        where id = any(array(select id from unlocked))
      )
      select id::text as number from held`,
    nack: `update ${messages} set visible_at = ${due("$3::text::float8")}, receipt = null,
        attempts = (attempts = 0)::int + attempts - $4::text::int
      where ${held} returning id::text as number`,
    release: `update ${messages} set visible_at = '-infinity', receipt = null,
        releases = releases + 1,
        attempts = greatest(attempts, 1) - (releases < ${FREE_RELEASES})::int
      where ${held} returning id::text as number`,
    checkpoint: `update ${messages} set checkpoint = $3::text, releases = 0
      where ${held} returning id::text as number`,

    deadLetter: `with removed as (
        delete from ${messages} where ${held} returning id, queue
      ), letter as (
        insert into ${messages} (queue, message_id, chosen, body, visible_at, envelope)
        select queue || '.dead', $3::text, false, $4::text, '-infinity', $5::text from removed
      )
      select id::text as number from removed`,
    deadLetterKeyed: settle("$5::text, $6::text, $7::text"),

    nonces: `select id::text as number, receipt::text as nonce from ${messages}
      where id = any($1::text::bigint[])`,

    notify: `select pg_notify($1::text, $2::text || ' ' || queue)
      from unnest($3::text::text[]) as woken (queue) where ${RELAXED}`,
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
