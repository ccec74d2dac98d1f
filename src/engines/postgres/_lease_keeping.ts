// Extends leases from another thread, which loads this module by its URL.

import { systemClock } from "../../clock.ts";
import { silentLog } from "../../log.ts";
import { addressOf, type LeaseKeeping } from "../../mailbox/lease_keeping.ts";
import { Database } from "./_database.ts";
import type { PostgresDelivery } from "./_delivery.ts";
import { PostgresEngine } from "./postgres_engine.ts";

/** The URL of this module; undefined when a bundler has merged it into another file. */
export const address: string | undefined = addressOf(import.meta.url, "_lease_keeping");

/** Options of {@linkcode openLeaseKeeping}. They are copied to the other thread. */
export interface LeaseKeepingOptions {
  readonly url: string;
  readonly schema: string;
  readonly queue: string;
  readonly callTimeoutMs: number;
}

/** Connects to the server and returns a lease extender for the queue. */
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
    extend: (receipts, visibilityMs) => engine.extend(receipts.map(deliveryOf), visibilityMs),
    close: () => engine.close(),
  };
}

/** Returns the part of a delivery that `extend` needs. */
function deliveryOf(receipt: string): PostgresDelivery {
  const [key, nonce] = receipt.split("-");
  return { key, nonce } as PostgresDelivery;
}
