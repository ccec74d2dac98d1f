import { Hono } from "hono";
import { bearerAuth } from "hono/bearer-auth";
import type { HealthOptions, Inspectable } from "./health_options.ts";
import { healthRoutes } from "./_routes.ts";

/**
 * Returns a Hono app with the health of a group: probes, metrics, status and a live page. Mount it in an app,
 * or set `healthPort` of the group.
 *
 * | path | answer |
 * |---|---|
 * | `/health/live` | 200, or 503 when a loop has no heartbeat; stays 200 while draining |
 * | `/health/ready` | 200, or 503 while starting, stopping or paused, or when a loop or a check fails |
 * | `/metrics` | Prometheus text |
 * | `/` | the live page |
 * | `/status` | the status as JSON: a {@linkcode Status} |
 * | `/events` | the status as server-sent events: immediately, every second, and on every change |
 *
 * With a `token` in the options, and as the bearer token of the request:
 *
 * | path | answer |
 * |---|---|
 * | `/controls` | 200: the token is right |
 * | `POST /pause`, `POST /resume` | stops taking work, and takes work again |
 * | `/dead-letters?mailbox=…` | the oldest dead letters with their errors |
 * | `POST /redrive?mailbox=…` | redrives up to 1 000 dead letters |
 *
 * With `?verbose`, the first two answer with one line per check.
 *
 * @example
 * ```ts
 * import { LoopGroup, StepLoop } from "@lastcall/lastcall";
 * import { healthApp } from "@lastcall/lastcall/health";
 *
 * const group = new LoopGroup([new StepLoop("poller", ({ sleep }) => sleep(1_000))]);
 * const app = healthApp(group, { checks: { database: () => true } });
 * const response = await app.request("/health/ready");
 * console.assert(response.status === 503); // the group does not run yet
 * ```
 */
export function healthApp(group: Inspectable, options: HealthOptions = {}): Hono {
  return healthRoutes({ Hono, bearerAuth }, group, options, false).app;
}
