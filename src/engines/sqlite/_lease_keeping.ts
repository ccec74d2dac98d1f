// Extends leases on a queue from another thread, which loads this module by its address.

import { systemClock } from "../../clock.ts";
import { addressOf, type LeaseKeeping } from "../../mailbox/lease_keeping.ts";
import { Connection } from "./_connection.ts";
import type { SqliteDelivery } from "./_delivery.ts";
import { anyDriver } from "./drivers/mod.ts";
import type { Durability } from "./_open_file.ts";
import { SqliteEngine } from "./sqlite_engine.ts";

/** Where a thread finds this module. */
export const address: string | undefined = addressOf(import.meta.url, "_lease_keeping");

/** What it takes to reach the queue. */
export interface LeaseKeepingOptions {
  readonly path: string;
  readonly queue: string;
  readonly durability: Durability;
}

/** Opens the file, which is there as long as there are leases in it. */
export async function openLeaseKeeping(options: LeaseKeepingOptions): Promise<LeaseKeeping> {
  const { path, queue, durability } = options;
  const shared = { clock: systemClock, driver: anyDriver, durability, create: false };
  const connection = new Connection(path, shared, Infinity);
  await connection.open();
  const engine = new SqliteEngine(queue, connection, systemClock, Infinity);
  return {
    extend: (receipts, visibilityMs) => engine.extend(receipts.map(held), visibilityMs),
    close: async () => await engine.close(),
  };
}

/** As much of a delivery as its extension needs. */
function held(receipt: string): SqliteDelivery {
  const [seq, nonce] = receipt.split("-").map(Number);
  return { seq, nonce } as SqliteDelivery;
}
