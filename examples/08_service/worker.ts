/**
 * 8. A service. This is a worker: it finishes what it has begun. On any runtime, with a port as its argument:
 *
 *     node examples/08_service/worker.ts 8081
 *     bun examples/08_service/worker.ts 8082
 *     deno run -A examples/08_service/worker.ts 8083
 *
 * Ask it for `/tasks/5000` and press Ctrl+C meanwhile: the work is finished and answered, and whoever asks
 * for more in that time gets 503 with code 5006, TERMINATING. `coordinator.ts` then asks another worker.
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
  .use(drainable(gate))
  // Work that may take its time. Near the deadline of a stop it is given up, and its client hears so.
  .get("/tasks/:ms", async (c) => {
    const work = systemClock.sleep(Number(c.req.param("ms")));
    await withCancellation(work, c.var.cancelling, "the work");
    return c.json({ done: true, by: process.pid });
  })
  // A stream without an end of its own ends when a stop begins, so that nobody has to wait for it.
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

/** What the platform allows: Kubernetes 30 s, Docker 10 s, Deno Deploy 5 s. Stay a little below. */
const shutdownTimeoutMs = Number(process.env["SHUTDOWN_TIMEOUT_MS"] ?? 25_000);
/** How long routers may take to notice that this process is not ready. See `kubernetes.yaml`. */
const unreadyDelayMs = Number(process.env["UNREADY_DELAY_MS"] ?? 0);

const group = new LoopGroup([worker], { shutdownTimeoutMs, unreadyDelayMs });
app.route("/", healthApp(group, { metrics: [gate] }));
await group.main();
