/**
 * 13. A worker for Deno Deploy: a service that accepts orders, Deno KV that stores them, and a loop that
 * handles them.
 *
 *     deno run -A --unstable-kv examples/13_deno_deploy.ts
 *
 *     curl -X POST http://127.0.0.1:8000/orders -d '"tea"'
 *
 * Deno Deploy sends SIGINT and ends the process five seconds later. So the whole stop has 4.5 seconds. Work
 * that takes longer than 3.6 seconds is cancelled and released, and another instance repeats it. `PORT` names
 * another port, an argument another database.
 */

import process from "node:process";
import { LoopGroup, MailboxLoop, openMailbox, systemClock } from "../mod.ts";
import { healthApp } from "../src/health/mod.ts";
import { drainable, ServiceGate, ServiceLoop } from "../src/service/mod.ts";
import { Hono } from "hono";

const { Deno } = globalThis as { Deno?: { openKv?: unknown } };
const [store = ""] = process.argv.slice(2); // empty: the default database of the program
const hasKv = Deno?.openKv !== undefined;
if (!hasKv) console.log("no Deno KV here (it needs --unstable-kv): orders are kept in memory");
const orders = await openMailbox<string>(hasKv ? `denokv:${store}?queue=orders` : "memory:orders");

const gate = new ServiceGate({ name: "counter" });
const app = new Hono()
  .use(drainable(gate)) // during a stop, new requests get 503 with Retry-After
  .post("/orders", async (c) => {
    const { id } = await orders.send(await c.req.json()); // from here on the order is stored
    return c.json({ id }, 202);
  });

const counter = new ServiceLoop("counter", app.fetch, {
  port: Number(process.env["PORT"] ?? 8000),
  gate,
  stopOrder: -1, // the service stops before the loop
  onListen: ({ port }) => console.log(`listening on ${port}`),
});

const kitchen = new MailboxLoop({
  name: "kitchen",
  mailbox: orders,
  concurrency: 4,
  deadLetter: { maxDeliveries: 5 },
  handler: async ({ body: order }, { signal }) => {
    await systemClock.sleep(500, { signal }); // pass the signal on, so that the work can be cancelled
    console.log(`${order} is served`);
  },
});

const group = new LoopGroup([counter, kitchen], {
  shutdownTimeoutMs: 4_500, // the last tenth is reserved to release cancelled messages
  resources: [orders],
});
app.route("/", healthApp(group, { mailboxes: [orders], metrics: [gate] }));

// If an instance is killed, others receive its orders after half a minute.
await group.main({ visibilityTimeoutMs: 30_000 });
