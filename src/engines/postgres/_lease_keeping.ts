// Extends leases on a queue from another thread, which loads this module by its address.

import { systemClock } from "../../clock.ts";
import { silentLog } from "../../log.ts";
import { addressOf, type LeaseKeeping } from "../../mailbox/lease_keeping.ts";
import { Database } from "./_database.ts";
import type { PostgresDelivery } from "./_delivery.ts";
import { PostgresEngine } from "./postgres_engine.ts";

/** Where a thread finds this module. */
export const address: string | undefined = addressOf(import.meta.url, "_lease_keeping");

/** What it takes to reach the queue. */
export interface LeaseKeepingOptions {
  readonly url: string;
  readonly schema: string;
  readonly queue: string;
  readonly callTimeoutMs: number;
}

/** Connects to the server. */
export async function openLeaseKeeping(options: LeaseKeepingOptions): Promise<LeaseKeeping> {
  const { url, schema, queue, callTimeoutMs } = options;
  const shared = { callTimeoutMs, clock: systemClock };
  const database = Database.of({ ...shared, target: url, schema, maxConnections: 1 }, silentLog);
  await database.open(false);
  const engine = new PostgresEngine(queue, database, {
    ...shared,
    maxSize: Infinity,
    pollIntervalMs: Infinity,
    log: silentLog,
  });
  return {
    extend: (receipts, visibilityMs) => engine.extend(receipts.map(held), visibilityMs),
    close: () => engine.close(),
  };
}

/** As much of a delivery as its extension needs. */
function held(receipt: string): PostgresDelivery {
  const [key, nonce] = receipt.split("-");
  return { key, nonce } as PostgresDelivery;
}
