import { BODY } from "./_store_function.ts";

/**
 * Returns the step to version 5: expired leases, timed pauses, rate limits and the owners of leases.
 *
 * A worker of version 4 that is still connected continues to work. Its leases have no owner, so they end only by
 * time, and it does not count expired leases. It receives nothing from a queue with a timed pause or a rate limit,
 * because it takes the row for a pause. When it resumes the queue, the rate limit ends too.
 */
export function versionFive(schema: string): string {
  return `-- Null for none, which takes no space.
    alter table "${schema}".messages add column expiries int;

    -- The row without a key also has the rate limit. \`paused_until\` is null until the queue is resumed, and
    -- \`-infinity\` when only the limit applies. The deliveries of a period are counted in parts of it.
    alter table "${schema}".controls add column paused_until timestamptz, add column max_deliveries int,
      add column period_ms float8, add column parts bigint[], add column counts bigint[];
    delete from "${schema}".controls as one using "${schema}".controls as other
      where one.queue = other.queue and one.key is null and other.key is null and one.ctid < other.ctid;
    create unique index controls_one on "${schema}".controls (queue) where key is null;

    -- The processes that receive messages, each by the server process of the connection on which it listens.
    -- The numbers start above those of the receipts of earlier versions, divided by 2^32.
    create table "${schema}".owners (
      number bigint generated always as identity
        (start with 2097152 minvalue 2097152 maxvalue 2147483647 cycle) primary key,
      pid int not null,
      backend_start timestamptz not null,
      server_start timestamptz not null,
      registered_at timestamptz not null default now()
    );
    ${allowance(schema)}
    ${countDeliveries(schema)}
    ${expireOwner(schema)}`;
}

/** The parts that still count. A part in the future was counted before the clock was set back. */
const COUNTED = `unnest(control.parts, control.counts) as counted (part, count)
        where (part + 1) * control.period_ms / 50 + control.period_ms > at and
          part <= floor(at / (control.period_ms / 50))`;

/**
 * Returns how many messages may be delivered, and with none in how many milliseconds. `wait` is null when the
 * queue has neither a pause nor a limit. With a limit it locks the row until the end of the transaction, which
 * has to count the deliveries. `QueueControl` defines the limit.
 */
function allowance(schema: string): string {
  return `create function "${schema}".allowance(
      name text, wanted bigint, out allowed bigint, out wait float8
    ) ${BODY} as $allowance$
    declare
      control "${schema}".controls;
      at float8;
      delivered bigint;
      oldest bigint;
    begin
      select * into control from "${schema}".controls where queue = name and key is null;
      if found and coalesce(control.paused_until, 'infinity') <= clock_timestamp() then
        select * into control from "${schema}".controls where queue = name and key is null for update;
      end if;
      if not found then
        allowed := wanted;
        return;
      end if;
      at := extract(epoch from clock_timestamp()) * 1000;
      if control.paused_until is null or control.paused_until = 'infinity' then
        allowed := 0;
        wait := 'infinity';
      elsif control.paused_until > clock_timestamp() then
        allowed := 0;
        wait := greatest(1, extract(epoch from control.paused_until) * 1000 - at);
      elsif control.max_deliveries is null then
        delete from "${schema}".controls where queue = name and key is null;
        allowed := wanted;
      else
        select coalesce(sum(count), 0), min(part) into delivered, oldest from ${COUNTED};
        allowed := greatest(0, least(wanted, control.max_deliveries - delivered));
        wait := case when allowed > 0 then 0
          else greatest(1, (oldest + 1) * control.period_ms / 50 + control.period_ms - at) end;
      end if;
    end $allowance$;`;
}

/** Counts deliveries under the limit. Needs the lock that `allowance` has taken. */
function countDeliveries(schema: string): string {
  return `create function "${schema}".count_deliveries(name text, new_count bigint) returns bigint
    ${BODY} as $count_deliveries$
    declare
      control "${schema}".controls;
      at float8 := extract(epoch from clock_timestamp()) * 1000;
    begin
      if new_count = 0 then return 0; end if;
      select * into control from "${schema}".controls
        where queue = name and key is null and max_deliveries is not null;
      if not found then return new_count; end if;
      select array_agg(part order by part), array_agg(count order by part)
        into control.parts, control.counts from (
          select part, sum(count)::bigint as count from (
            select part, count from ${COUNTED}
            union all select floor(at / (control.period_ms / 50))::bigint, new_count
          ) as all_parts group by part
        ) as added;
      update "${schema}".controls set parts = control.parts, counts = control.counts
        where queue = name and key is null;
      return new_count;
    end $count_deliveries$;`;
}

/**
 * Expires the leases of an owner whose connection is gone, and removes the owner. Returns the queues of the messages.
 * A message that a transaction has locked is left to the next call, and so is the owner then.
 */
export function expireOwner(schema: string, expiries = "coalesce(expiries, 0) + 1"): string {
  return `create or replace function "${schema}".expire_owner(owner bigint)
    returns table (mailbox text, messages bigint) ${BODY} as $expire_owner$
    #variable_conflict use_column
    declare
      registered "${schema}".owners;
      first_receipt bigint := owner << 32;
      last_receipt bigint := (owner << 32) + 4294967295;
    begin
      -- The owner may have reconnected: then it has changed the row, or waits for this transaction.
      select * into registered from "${schema}".owners where number = owner for update;
      if not found or registered.server_start <> pg_postmaster_start_time() or exists (
        select from pg_stat_activity as backend where pid = registered.pid and
          coalesce(backend.backend_start, registered.backend_start) = registered.backend_start
      ) then
        return;
      end if;
      return query with expired as (
          update "${schema}".messages
          set visible_at = '-infinity', receipt = null, expiries = ${expiries}
          where id = any(array(
            select id from "${schema}".messages
            where receipt is not null and receipt between first_receipt and last_receipt
            for update skip locked
          )) returning queue
        )
        select queue, count(*) from expired group by queue;
      if not exists (
        select from "${schema}".messages
        where receipt is not null and receipt between first_receipt and last_receipt
      ) then
        delete from "${schema}".owners where number = owner;
      end if;
    end $expire_owner$;`;
}
