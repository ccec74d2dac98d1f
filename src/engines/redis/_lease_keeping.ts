// Extends leases on a queue from another thread, which loads this module by its address.

import { systemClock } from "../../clock.ts";
import { silentLog } from "../../log.ts";
import { addressOf, type LeaseKeeping } from "../../mailbox/lease_keeping.ts";
import { Backend } from "./_backend.ts";
import type { RedisDelivery } from "./_delivery.ts";
import { RedisEngine } from "./redis_engine.ts";

/** Where a thread finds this module. */
export const address: string | undefined = addressOf(import.meta.url, "_lease_keeping");

/** What it takes to reach the queue. */
export interface LeaseKeepingOptions {
  readonly url: string;
  readonly queue: string;
  readonly callTimeoutMs: number;
}

/** Connects to the server. */
export async function openLeaseKeeping(options: LeaseKeepingOptions): Promise<LeaseKeeping> {
  const { url, queue, callTimeoutMs } = options;
  const backend = new Backend(url, {
    clock: systemClock,
    log: silentLog,
    callTimeoutMs,
    pollIntervalMs: Infinity,
  });
  await backend.open();
  const engine = new RedisEngine(queue, backend, Infinity);
  return {
    extend: (receipts, visibilityMs) => engine.extend(receipts.map(held), visibilityMs),
    close: () => engine.close(),
  };
}

/** As much of a delivery as its extension needs. */
function held(receipt: string): RedisDelivery {
  const [seq, nonce] = receipt.split(/-(.*)/s);
  return { seq, nonce } as RedisDelivery;
}
