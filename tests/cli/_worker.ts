// A group with a health port, whose handlers run until the test finishes them.

import type { HealthOptions } from "../../src/health/mod.ts";
import { InMemoryMailbox, LoopGroup, MailboxLoop, silentLog } from "../../mod.ts";
import { deferred } from "../../src/_promises.ts";
import { freePort } from "../engines/_servers.ts";

/** The token for workers that need one. */
export const TOKEN = "a-token-for-the-tests";

/** A running worker. */
export interface Worker extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  readonly group: LoopGroup;
  readonly mailbox: InMemoryMailbox<string>;
  /** Finishes the oldest handler. */
  finish(): void;
}

/** Starts a worker that handles these orders, each until {@linkcode Worker.finish}. */
export async function startWorker(
  orders: readonly string[] = [],
  health: HealthOptions = {},
): Promise<Worker> {
  const port = await freePort();
  const mailbox = new InMemoryMailbox<string>("orders");
  if (orders.length > 0) await mailbox.sendMany(orders);
  const [begun, running] = [deferred(), deferred()];
  const working: (() => void)[] = [];
  const loop = new MailboxLoop({
    mailbox,
    concurrency: 10,
    log: silentLog,
    handler: async () => {
      await new Promise<void>((resolve) => {
        working.push(resolve);
        if (working.length === orders.length) begun.resolve();
      });
    },
  });
  const group = new LoopGroup([loop], {
    healthPort: port,
    healthHost: "127.0.0.1",
    health: { log: silentLog, ...health },
    log: silentLog,
  });
  group.on("phase", ({ phase }) => phase === "running" && running.resolve());
  const run = group.run({ installSignals: false });
  await running.promise;
  if (orders.length > 0) await begun.promise;
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    group,
    mailbox,
    finish: () => working.shift()?.(),
    async [Symbol.asyncDispose]() {
      const stopped = group.shutdown();
      for (const finish of working) finish();
      await stopped;
      await run;
    },
  };
}
