import { BODY, hasKey, keyHash, storeFunction } from "./_store_function.ts";

/**
 * Returns the step to version 4: keys, priorities, remembered ids, lookup by id and pausing.
 *
 * The column `meta` gets another name, because a worker of an earlier version that is still connected must not
 * receive: it would acknowledge the first message of a key and leave the others blocked. It can still settle.
 *
 * Leased messages have an index of their own. So a receive does not write to the index of generated ids, and
 * a leased message is found among the few that are leased. The indexes use hashes of keys and generated ids,
 * which may be longer than an index entry. They are partial, so that the planner cannot use them for other
 * statements.
 */
export function versionFour(schema: string): string {
  return `alter table "${schema}".messages rename column meta to envelope;
    alter table "${schema}".messages add column priority smallint not null default 0,
      add column key text, add column place bigint;
    drop index "${schema}".messages_line;
    create index messages_line on "${schema}".messages
      (queue, visible_at, (-priority), (id + 0)) where receipt is null;
    create index messages_leased on "${schema}".messages (queue, visible_at, (id + 0))
      where receipt is not null;
    create index messages_generated on "${schema}".messages
      (hashtextextended(message_id, 0)) where not chosen and receipt is null;
    create index messages_key on "${schema}".messages
      (${keyHash("queue", "key")}, place) where key is not null;
    create index messages_joining on "${schema}".messages (queue, visible_at, (id + 0))
      where key is not null and place is null;

    -- With a key: the first message of the key was removed without unblocking the next one, because the
    -- transaction was one of the caller. With an empty key: the queue was purged, which concerns all keys.
    -- Without a key: the queue is paused.
    create table "${schema}".controls (queue text not null, key text) with (
      autovacuum_vacuum_scale_factor = 0.01,
      autovacuum_vacuum_threshold = 1000,
      autovacuum_vacuum_cost_delay = 0
    );
    create index controls_queue on "${schema}".controls (queue);

    create table "${schema}".remembered (
      queue text not null,
      message_id text not null,
      forget_at timestamptz not null,
      primary key (queue, message_id)
    ) with (
      autovacuum_vacuum_scale_factor = 0.01,
      autovacuum_vacuum_threshold = 1000
    );
    create index remembered_forget_at on "${schema}".remembered (forget_at);
    ${room(schema)}
    ${lockKeys(schema)}
    ${advance(schema)}
    ${join(schema)}
    ${storeFunction(schema)}
    ${settle(schema)}
    ${cancel(schema)}`;
}

/** The function of version 1, with a count by the new indexes. */
function room(schema: string): string {
  return `create or replace function "${schema}".room(
      name text, ids text[], chosen_ids boolean[], max_size bigint, out size bigint, out fresh bigint
    ) language plpgsql volatile as $room$
    begin
      perform pg_advisory_xact_lock(hashtextextended('lastcall room ${schema} ' || name, 0));
      size := "${schema}".size_of(name, max_size);
      select count(distinct case when given.chosen then given.id end) +
          count(*) filter (where not given.chosen) into fresh
        from unnest(ids, chosen_ids) as given (id, chosen)
        where not given.chosen or not exists (
          select from "${schema}".messages as stored
          where stored.queue = name and stored.message_id = given.id and stored.chosen
        );
    end $room$;
    create function "${schema}".size_of(name text, max_size bigint) returns bigint
    ${BODY} as $size_of$
    begin
      return (select count(*) from (
        (select from "${schema}".messages where queue = name and receipt is null limit max_size + 1)
        union all
        (select from "${schema}".messages where queue = name and receipt is not null limit max_size + 1)
      ) as counted);
    end $size_of$;`;
}

/**
 * All calls that change the line of a key take its lock first, and each of their next statements has a new
 * snapshot. Keys share 64 locks, because the server holds all locks in memory of a fixed size.
 */
function lockKeys(schema: string): string {
  return `create function "${schema}".lock_keys(name text, keys text[]) returns void
    ${BODY} as $lock_keys$
    declare
      group_id int := hashtext('lastcall keys ${schema} ' || name);
    begin
      if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'message keys need the isolation level "read committed"; set it as the default '
          'of the client that the mailbox was opened with';
      end if;
      perform pg_advisory_xact_lock(group_id, lock) from (
        select distinct hashtext(key) & 63 as lock from unnest(keys) as given (key)
        where key is not null order by 1
      ) as locks;
    end $lock_keys$;`;
}

/** Makes the first message of each key ready if it is blocked. Needs the locks of the keys. */
function advance(schema: string): string {
  return `create function "${schema}".advance(name text, keys text[], out advanced bigint)
    ${BODY} as $advance$
    begin
      update "${schema}".messages set visible_at = '-infinity'
        where visible_at = 'infinity' and id = any(array(
          select (
            select id from "${schema}".messages where ${hasKey("given.key")} and place is not null
            order by place limit 1
          ) from unnest(keys) as given (key)
        ));
      get diagnostics advanced = row_count;
    end $advance$;`;
}

/**
 * Lets messages join the lines of their keys when they are due, and unblocks the keys whose first message was
 * removed in a transaction of the caller. Handles a limited number, so that it ends before its timeout.
 */
function join(schema: string): string {
  return `create function "${schema}".join_keys(name text, out advanced bigint) ${BODY} as $join$
    declare
      ids bigint[];
      keys text[];
      places bigint[];
    begin
      if exists (select from "${schema}".controls where queue = name and key = '') then
        -- A sender that stores a message behind a purged one has the lock of its key until its commit.
        perform pg_advisory_xact_lock(hashtext('lastcall keys ${schema} ' || name), lock)
          from generate_series(0, 63) as lock;
        delete from "${schema}".controls where queue = name and key = '';
        perform "${schema}".advance(name, array(
          select distinct key from "${schema}".messages
          where queue = name and receipt is null and visible_at = 'infinity'
        ));
      end if;
      select array_agg(due.id), array_agg(distinct due.key) into ids, keys from (
        select id, key from "${schema}".messages
        where queue = name and key is not null and place is null and visible_at <= clock_timestamp()
        order by visible_at, (id + 0) limit 1000
      ) as due;
      keys := array(
        select unnest(keys) union
        (select key from "${schema}".controls where queue = name and key is not null limit 1000)
      );
      perform "${schema}".lock_keys(name, keys);
      -- Before the messages are read: what was removed with a deleted row must be seen as removed.
      delete from "${schema}".controls where queue = name and key = any(keys);
      -- Another process may have joined some of them since.
      select array_agg(joining.id), array_agg(joining.place) into ids, places from (
        select id, row_number() over (partition by due.key order by visible_at, id) + coalesce((
            select place from "${schema}".messages where ${hasKey("due.key")} and place is not null
            order by place desc limit 1
          ), 0) as place
        from "${schema}".messages as due where id = any(ids) and place is null
      ) as joining;
      update "${schema}".messages set place = joining.place, visible_at = 'infinity'
        from unnest(ids, places) as joining (id, place)
        where messages.id = any(ids) and messages.id = joining.id;
      advanced := "${schema}".advance(name, keys);
    end $join$;`;
}

/**
 * Removes messages with valid receipt handles and unblocks their keys. With a letter it stores it in the dead
 * letters. Locks the keys first: the other way round it could wait for a sender of the same id that has them.
 */
function settle(schema: string): string {
  return `create function "${schema}".settle(
      name text, keys text[], ids bigint[], receipts bigint[], letter_id text, letter_body text,
      letter_envelope text, out settled bigint[], out advanced bigint
    ) ${BODY} as $settle$
    declare
      freed text[];
      places bigint[];
    begin
      perform "${schema}".lock_keys(name, keys);
      with removed as (
        delete from "${schema}".messages
        where id = any(ids) and visible_at > clock_timestamp() and
          ((id, receipt) in (select * from unnest(ids, receipts))) is true
        returning id, key, place
      )
      select array_agg(id), array_agg(key), array_agg(place) into settled, freed, places from removed;
      if settled is null then return; end if;
      if letter_id is not null then
        insert into "${schema}".messages (queue, message_id, chosen, body, visible_at, envelope)
          values (name || '.dead', letter_id, false, letter_body, '-infinity', letter_envelope);
      end if;
      -- As \`advance\` does it, but without a look at the rows that were just deleted.
      update "${schema}".messages set visible_at = '-infinity'
        where visible_at = 'infinity' and id = any(array(
          select (
            select id from "${schema}".messages where ${hasKey("given.key")} and place > given.place
            order by place limit 1
          ) from unnest(freed, places) as given (key, place)
        ));
      get diagnostics advanced = row_count;
    end $settle$;`;
}

/**
 * Deletes a message by its id. If it was in flight, it notifies all processes; a long id needs several
 * notifications.
 */
function cancel(schema: string): string {
  return `create function "${schema}".cancel(
      name text, wanted text, channel text, sender text, out cancelled boolean, out in_flight boolean,
      out advanced bigint
    ) ${BODY} as $cancel$
    declare
      target bigint;
      line text;
    begin
      loop
        select id, key into target, line from (
          (select id, key from "${schema}".messages
            where queue = name and message_id = wanted and chosen)
          union all
          (select id, key from "${schema}".messages
            where hashtextextended(message_id, 0) = hashtextextended(wanted, 0) and
              message_id = wanted and queue = name and not chosen and receipt is null
            order by id + 0 limit 1)
          union all
          (select id, key from "${schema}".messages
            where queue = name and receipt is not null and message_id = wanted and not chosen
            order by id + 0 limit 1)
        ) as matches limit 1;
        cancelled := found;
        if not cancelled then return; end if;
        if line is not null then perform "${schema}".lock_keys(name, array[line]); end if;
        delete from "${schema}".messages where id = target
          returning receipt is not null and visible_at > clock_timestamp() into in_flight;
        exit when found; -- else it is gone, and another one may have its id
      end loop;
      if in_flight then
        perform pg_notify(channel, concat(
            sender, ' ', name, ' ', part, '/', parts, ' ', substr(wanted, (part - 1) * 1000 + 1, 1000)))
          from cast(greatest(1, ceil(length(wanted) / 1000.0)) as int) as parts, generate_series(1, parts) as part;
      end if;
      if line is not null then advanced := "${schema}".advance(name, array[line]); end if;
    end $cancel$;`;
}
