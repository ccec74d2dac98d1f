import { Hono } from "hono";
import { bearerAuth } from "hono/bearer-auth";
import type { HealthOptions, Inspectable } from "./health_options.ts";
import { healthRoutes } from "./_health_routes.ts";

/**
 * Tells how a group is doing, to probes, to Prometheus and to people. Mount it, or give the group a
 * `healthPort`.
 *
 * | path | answer |
 * |---|---|
 * | `/health/live` | 200, or 503 when a loop gives no sign of life; stays 200 while draining |
 * | `/health/ready` | 200, or 503 while starting, stopping, paused, or when a loop or a check is in trouble |
 * | `/metrics` | Prometheus text |
 * | `/` | a page for people, which shows all of it as it happens |
 * | `/status` | everything about the group, as JSON: a {@linkcode Status} |
 * | `/events` | the same as server-sent events: at once, every second, and at every change |
 *
 * With a `token`, and asked with it as the bearer:
 *
 * | path | answer |
 * |---|---|
 * | `/controls` | 200: the token is right |
 * | `POST /pause`, `POST /resume` | takes no more work, and takes work again |
 * | `/dead-letters?mailbox=…` | dead letters with what their errors say |
 * | `POST /redrive?mailbox=…` | sends dead letters back, up to 1 000 |
 *
 * `?verbose` gives the first two one line per check.
 *
 * @example
 * ```ts
 * import { LoopGroup, StepLoop } from "@lastcall/lastcall";
 * import { healthApp } from "@lastcall/lastcall/health";
 *
 * const group = new LoopGroup([new StepLoop("poller", ({ sleep }) => sleep(1_000))]);
 * const app = healthApp(group, { checks: { database: () => true } });
 * const response = await app.request("/health/ready");
 * console.assert(response.status === 503); // it does not run yet
 * ```
 */
export function healthApp(group: Inspectable, options: HealthOptions = {}): Hono {
  return healthRoutes({ Hono, bearerAuth }, group, options, false).app;
}
