import { expireOwner } from "./_version_five.ts";

/**
 * Returns the step to version 6: messages are handed over to waiting receives.
 *
 * The table has one row for each waiting receive. It is unlogged, because no receive waits after a crash of the
 * server. The inbox is the secret channel on which the process of the receive listens: a role that may not read the
 * table cannot forge a handover. `expire_owner` does not use the table, because the role of the caller may have no
 * permission for it. The registrations of a dead process end by time.
 *
 * A worker of version 5 that is still connected continues to work, without handovers.
 */
export function versionSix(schema: string): string {
  return `create unlogged table "${schema}".waiting (
      receipt bigint primary key,
      queue text not null,
      inbox text not null,
      ends_at timestamptz not null
    ) with (
      autovacuum_vacuum_scale_factor = 0.01,
      autovacuum_vacuum_threshold = 1000,
      autovacuum_vacuum_cost_delay = 0
    );
    create index waiting_queue on "${schema}".waiting (queue, ends_at);
    ${expireOwner(schema, EXPIRIES)}`;
}

/**
 * Counts the expired leases of a message whose lease expires. A leased message without an attempt was handed over and
 * not confirmed, so no process has begun to handle it.
 */
export const EXPIRIES: string =
  "case when receipt is null or attempts = 0 then expiries else coalesce(expiries, 0) + 1 end";
