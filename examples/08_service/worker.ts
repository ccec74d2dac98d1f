/**
 * 8. A service. This is a worker: it finishes the requests that it has accepted. Its argument is its port:
 *
 *     node examples/08_service/worker.ts 8081
 *     bun examples/08_service/worker.ts 8082
 *     deno run -A examples/08_service/worker.ts 8083
 *
 * Request `/tasks/5000` and press Ctrl+C meanwhile: the request is answered, and new requests get 503 with code
 * 5006, TERMINATING. `coordinator.ts` then sends them to another worker.
 */

import process from "node:process";
import { Hono } from "hono";
import { streamSSE } from "hono/streaming";
import { LoopGroup, systemClock } from "../../mod.ts";
import { healthApp } from "../../src/health/mod.ts";
import { drainable, ServiceGate, ServiceLoop, withCancellation } from "../../src/service/mod.ts";

const port = Number(process.argv[2] ?? 8081);
const gate = new ServiceGate({ name: "worker" });

const app = new Hono()
  .use(drainable(gate)) // first: it counts requests, and refuses them during a stop
  // Work that takes long. It is cancelled near the deadline of a stop, and the client gets 503.
  .get("/tasks/:ms", async (c) => {
    const work = systemClock.sleep(Number(c.req.param("ms")));
    await withCancellation(work, c.var.cancelling, "the work");
    return c.json({ done: true, by: process.pid });
  })
  // A stream without an end ends when a stop begins, so that the stop does not wait for it.
  .get("/events", (c) =>
    streamSSE(c, async (stream) => {
      for (let tick = 1; !c.var.stopping.aborted && !stream.aborted; tick++) {
        await stream.writeSSE({ data: String(tick) });
        await systemClock.sleep(1_000, { signal: c.var.stopping }).catch(() => {});
      }
    }));

const worker = new ServiceLoop("worker", app.fetch, {
  port,
  gate,
  onListen: ({ port }) => console.log(`listening on ${port}`),
});

/** A little less than the grace period: Kubernetes 30 s, Docker 10 s, Deno Deploy 5 s. */
const shutdownTimeoutMs = Number(process.env["SHUTDOWN_TIMEOUT_MS"] ?? 25_000);
/** Longer than load balancers need to notice that this process is not ready. */
const unreadyDelayMs = Number(process.env["UNREADY_DELAY_MS"] ?? 0);

const group = new LoopGroup([worker], { shutdownTimeoutMs, unreadyDelayMs });
app.route("/", healthApp(group, { metrics: [gate] }));
await group.main();
