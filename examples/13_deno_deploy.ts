/**
 * 13. A worker for Deno Deploy: a service that takes orders, Deno KV that keeps them, a loop that works
 * them off.
 *
 *     deno run -A --unstable-kv examples/13_deno_deploy.ts
 *
 *     curl -X POST http://127.0.0.1:8000/orders -d '"tea"'
 *
 * Deno Deploy says SIGINT and ends the process five seconds later, whatever it does. So the whole stop has
 * 4.5 seconds, and no piece of work may need longer than 3.6: then it is cancelled and given back,
 * and another instance does it. `PORT` names another port, an argument another store.
 */

import process from "node:process";
import { LoopGroup, MailboxLoop, openMailbox, systemClock } from "../mod.ts";
import { healthApp } from "../src/health/mod.ts";
import { drainable, ServiceGate, ServiceLoop } from "../src/service/mod.ts";
import { Hono } from "hono";

const { Deno } = globalThis as { Deno?: { openKv?: unknown } };
const [store = ""] = process.argv.slice(2); // none: the one that Deno has for this program
const hasKv = Deno?.openKv !== undefined;
if (!hasKv) console.log("no Deno KV here (it needs --unstable-kv): orders are kept in memory");
const orders = await openMailbox<string>(hasKv ? `denokv:${store}?queue=orders` : "memory:orders");

const gate = new ServiceGate({ name: "counter" });
const app = new Hono()
  .use(drainable(gate)) // while it stops, new requests hear 503, and are asked to come again
  .post("/orders", async (c) => {
    const id = await orders.send(await c.req.json()); // from here on it is not lost
    return c.json({ id }, 202);
  });

const counter = new ServiceLoop("counter", app.fetch, {
  port: Number(process.env["PORT"] ?? 8000),
  gate,
  stopOrder: -1, // who takes orders stops before who works them off
  onListen: ({ port }) => console.log(`listening on ${port}`),
});

const kitchen = new MailboxLoop({
  name: "kitchen",
  mailbox: orders,
  concurrency: 4,
  deadLetter: { maxDeliveries: 5 },
  handler: async ({ body: order }, { signal }) => {
    await systemClock.sleep(500, { signal }); // pass the signal on, so that work can be cancelled
    console.log(`${order} is served`);
  },
});

const group = new LoopGroup([counter, kitchen], {
  shutdownTimeoutMs: 4_500, // its last tenth is kept for giving back what was cancelled
  resources: [{ name: "orders", stop: () => orders.close() }],
});
app.route("/", healthApp(group, { mailboxes: [orders], metrics: [gate] }));

// Should an instance be killed all the same: others have its orders half a minute later.
await group.main({ visibilityTimeoutMs: 30_000 });
