/**
 * 8. A service that calls workers. A coordinator passes requests to workers, and tries another one when a worker
 * is stopping. Its arguments are its port and the URLs of the workers:
 *
 *     node examples/08_service/coordinator.ts 8080 http://127.0.0.1:8081 http://127.0.0.1:8082
 *     node examples/08_service/coordinator.ts 8080 dns://worker:8080
 *
 * The second form looks the addresses up again every few seconds, as pods come and go. Stop a worker under
 * load: no client notices. Stop the coordinator: it answers the requests that it has accepted.
 */

import { lookup } from "node:dns/promises";
import process from "node:process";
import { Hono } from "hono";
import { LoopGroup } from "../../mod.ts";
import { healthApp } from "../../src/health/mod.ts";
import * as service from "../../src/service/mod.ts";

const [port = "8080", ...workers] = process.argv.slice(2);
const pool = new service.WorkerPool({
  workers: async () => (await Promise.all(workers.map(addressesOf))).flat(),
  deadlineMs: 60_000,
  minRemainingMs: 10_000,
  healthEveryMs: 500,
});
const gate = new service.ServiceGate({ name: "coordinator" });

const app = new Hono()
  .use(service.drainable(gate))
  .get("/status/workers", (c) => c.json(pool.workers))
  .all("/tasks/*", (c) => {
    const sessionId = c.req.header("x-session"); // requests of a session go to one worker
    const { signal } = c.req.raw;
    return pool.fetch(c.req.raw, sessionId === undefined ? { signal } : { signal, sessionId });
  })
  .onError((error, c) =>
    c.json({ error: error.message }, service.isUnreachableError(error) ? 502 : 500)
  );

const front = new service.ServiceLoop("front", app.fetch, {
  port: Number(port),
  gate,
  onListen: ({ port }) => console.log(`listening on ${port}`),
});
const shutdownTimeoutMs = Number(process.env["SHUTDOWN_TIMEOUT_MS"] ?? 25_000);
const unreadyDelayMs = Number(process.env["UNREADY_DELAY_MS"] ?? 0);
// The pool is a resource: it starts before the front, and stops when the front has answered all requests.
const group = new LoopGroup([front], { resources: [pool], shutdownTimeoutMs, unreadyDelayMs });
app.route("/", healthApp(group, { metrics: [gate, pool] }));
await group.main();

async function addressesOf(url: string): Promise<readonly string[]> {
  if (!url.startsWith("dns://")) return [url];
  const { hostname, port } = new URL(url.replace("dns://", "http://"));
  const found = await lookup(hostname, { all: true, family: 4 });
  return found.map(({ address }) => `http://${address}:${port}`);
}
