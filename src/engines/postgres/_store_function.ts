/**
 * The settings make a function use the indexes on connections of the caller too, and keep its plans. Without
 * statistics the server overestimates the costs, and would compile the plans of a long queue each time.
 */
export const BODY: string = `language plpgsql volatile
      set enable_seqscan = off set enable_bitmapscan = off
      set plan_cache_mode = force_generic_plan set jit = off`;

/** The expression of the index `messages_key`. One number is compared faster than two texts. */
export const keyHash = (queue: string, key: string): string =>
  `hashtextextended(${key}, hashtextextended(${queue}, 0))`;

/** Finds the messages of a key by the index `messages_key`. */
export const hasKey = (key: string): string =>
  `${keyHash("messages.queue", "messages.key")} = ${keyHash("name", key)} and
        messages.key = ${key} and messages.queue = name`;

/**
 * Stores entries with keys or remembered ids. Returns the chosen ids that were stored, and those that were
 * refused because they are remembered, as JSON. With `max_size` it returns the size and how many entries are
 * new, and stores nothing if they do not fit.
 *
 * In a transaction of the caller it takes no lock that others need before the commit: messages with a key join
 * their line later, by `join_keys`, and the size is that of the committed messages.
 */
export function storeFunction(schema: string): string {
  return `create function "${schema}".store(
      name text, ids text[], chosen_ids boolean[], bodies text[], delays float8[], envelopes text[],
      checkpoints text[], priorities smallint[], keys text[], turns bigint[], windows float8[],
      max_size bigint, in_transaction boolean, out size bigint, out fresh bigint, out stored text, out refused text
    ) ${BODY} as $store$
    declare
      at timestamptz := clock_timestamp();
      is_locked boolean := false;
      claimed text[] := '{}';
      stored_ids text[];
      stored_count bigint;
    begin
      -- Claims ids before it takes locks: a claim waits for the transactions that have claimed the same id.
      if exists (select from unnest(windows) as given (ms) where ms is not null) then
        with asked as materialized (
          select distinct on (id) id, ms
          from unnest(ids, windows) with ordinality as given (id, ms, number) order by id, number
        ), taken as (
          insert into "${schema}".remembered as known (queue, message_id, forget_at)
          select name, id, at + ms * interval '1 ms' from asked where ms is not null order by id
          on conflict (queue, message_id) do update set forget_at = excluded.forget_at
            where known.forget_at <= at
          returning message_id
        )
        select array(select message_id from taken), (
          select json_agg(id)::text from asked
          where ms is not null and id not in (select message_id from taken)
        ) into claimed, refused;
      end if;
      if not in_transaction and exists (
        select from unnest(keys, delays) as given (key, delay) where key is not null and delay = 0
      ) then
        perform "${schema}".lock_keys(name, keys);
        is_locked := true;
        at := clock_timestamp();
      end if;
      if max_size is not null then
        if not in_transaction then
          perform pg_advisory_xact_lock(hashtextextended('lastcall room ${schema} ' || name, 0));
        end if;
        size := "${schema}".size_of(name, max_size);
        select count(distinct case when given.chosen then given.id end) +
            count(*) filter (where not given.chosen) into fresh
          from unnest(ids, chosen_ids, windows) as given (id, chosen, ms)
          where (ms is null or given.id = any(claimed)) and (not given.chosen or not exists (
            select from "${schema}".messages as other
            where other.queue = name and other.message_id = given.id and other.chosen
          ));
        if size + fresh > max_size then
          delete from "${schema}".remembered where queue = name and message_id = any(claimed);
          return;
        end if;
      end if;
      with new as (
        insert into "${schema}".messages
          (queue, message_id, chosen, body, visible_at, envelope, checkpoint, priority, key, place)
        select name, given.id, given.chosen, given.body,
          case
            when delay > 0 then at + delay * interval '1 ms'
            when given.key is null then '-infinity'
            when line.place > 0 then 'infinity'
            when line.place = 0 then case when turn = 1 then '-infinity' else 'infinity' end::timestamptz
            else at
          end,
          given.envelope, given.checkpoint, given.priority, given.key, line.place + turn
        from unnest(ids, chosen_ids, bodies, delays, envelopes, checkpoints, priorities, keys, turns, windows)
          with ordinality as given
          (id, chosen, body, delay, envelope, checkpoint, priority, key, turn, ms, number)
        -- The last place of the line; null when a due message has not joined it, which is older than this.
        left join lateral (
          select case
            when last.id is null then 0
            when last.place is not null then last.place
            when not exists (
              select from "${schema}".messages
              where ${hasKey("given.key")} and place is null and visible_at <= at
            ) then coalesce((
              select max(place) from "${schema}".messages
              where ${hasKey("given.key")} and place is not null
            ), 0)
          end as place
          from (values (0)) as one left join lateral (
            select id, place from "${schema}".messages where ${hasKey("given.key")}
            order by place desc limit 1
          ) as last on true
        ) as line on given.key is not null and delay = 0 and not in_transaction
        where ms is null or given.id = any(claimed)
        order by number
        on conflict (queue, message_id) where chosen do nothing returning message_id, chosen
      )
      select array_agg(message_id) filter (where chosen), count(*) into stored_ids, stored_count from new;
      stored := array_to_json(stored_ids)::text;
      if stored_count < cardinality(ids) then
        -- A duplicate may have got the first place of its key.
        if is_locked then perform "${schema}".advance(name, keys); end if;
        delete from "${schema}".remembered
          where queue = name and message_id = any(claimed) and (message_id = any(stored_ids)) is not true;
      end if;
    end $store$;`;
}
