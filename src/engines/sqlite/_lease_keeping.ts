// Extends leases from another thread, which loads this module by its URL.

import { systemClock } from "../../clock.ts";
import { addressOf, type LeaseKeeping } from "../../mailbox/lease_keeping.ts";
import { Connection } from "./_connection.ts";
import type { SqliteDelivery } from "./_delivery.ts";
import { anyDriver } from "./drivers/mod.ts";
import type { Durability } from "./_open_file.ts";
import { SqliteEngine } from "./sqlite_engine.ts";

/** The URL of this module; undefined when a bundler has merged it into another file. */
export const address: string | undefined = addressOf(import.meta.url, "_lease_keeping");

/** Options of {@linkcode openLeaseKeeping}. They are copied to the other thread. */
export interface LeaseKeepingOptions {
  readonly path: string;
  readonly queue: string;
  readonly durability: Durability;
}

/** Opens the existing file and returns a lease extender for the queue. */
export async function openLeaseKeeping(options: LeaseKeepingOptions): Promise<LeaseKeeping> {
  const { path, queue, durability } = options;
  const shared = { clock: systemClock, driver: anyDriver, durability, create: false };
  const connection = new Connection(path, shared, Infinity);
  await connection.open();
  const engine = new SqliteEngine(queue, connection, systemClock, Infinity);
  return {
    extend: (receipts, visibilityMs) => engine.extend(receipts.map(deliveryOf), visibilityMs),
    close: async () => await engine.close(),
  };
}

/** Returns the part of a delivery that `extend` needs. */
function deliveryOf(receipt: string): SqliteDelivery {
  const [seq, nonce] = receipt.split("-").map(Number);
  return { seq, nonce } as SqliteDelivery;
}
