// Extends leases from another thread, which loads this module by its URL.

import { systemClock } from "../../clock.ts";
import { silentLog } from "../../log.ts";
import { addressOf, type LeaseKeeping } from "../../mailbox/lease_keeping.ts";
import { Backend } from "./_backend.ts";
import type { RedisDelivery } from "./_delivery.ts";
import { RedisEngine } from "./redis_engine.ts";

/** The URL of this module; undefined when a bundler has merged it into another file. */
export const address: string | undefined = addressOf(import.meta.url, "_lease_keeping");

/** Options of {@linkcode openLeaseKeeping}. They are copied to the other thread. */
export interface LeaseKeepingOptions {
  readonly url: string;
  readonly queue: string;
  readonly callTimeoutMs: number;
}

/** Connects to the server and returns a lease extender for the queue. */
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
    extend: (receipts, visibilityMs) => engine.extend(receipts.map(deliveryOf), visibilityMs),
    close: () => engine.close(),
  };
}

/** Returns the part of a delivery that `extend` needs. */
function deliveryOf(receipt: string): RedisDelivery {
  const [seq, nonce] = receipt.split(/-(.*)/s);
  return { seq, nonce } as RedisDelivery;
}
