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
 * | `/status?summary=true` | the status without loops, mailboxes, agents and replicas |
 * | `/events` | the status as server-sent events: immediately, every second, and on every change |
 * | `/history` | the rate and the counts of the last hour: a {@linkcode History} |
 *
 * With a `token` in the options, and as the bearer token of the request:
 *
 * | path | answer |
 * |---|---|
 * | `/controls` | 200: the token is right |
 * | `POST /pause`, `POST /resume` | stops taking work, and takes work again |
 * | `/messages?mailbox=…` | a page of messages with their bodies |
 * | `/messages/<id>?mailbox=…` | one message |
 * | `POST /messages/cancel?mailbox=…` | deletes messages, and cancels their handlers |
 * | `POST /messages/deliver-now?mailbox=…` | makes delayed messages visible |
 * | `/dead-letters?mailbox=…` | a page of dead letters with their errors and bodies |
 * | `POST /dead-letters/delete?mailbox=…` | deletes dead letters |
 * | `POST /redrive?mailbox=…` | sends dead letters back: those with the ids of the body, or up to 1 000 |
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
