import { Hono } from "hono";
import { checkInterval } from "../_checks.ts";
import { systemClock } from "../clock.ts";
import { libraryLog } from "../library_log.ts";
import { Broadcast } from "./_broadcast.ts";
import { callChecks, type CheckResult, groupChecks, liveChecks } from "./_checks.ts";
import { addControls } from "./_controls.ts";
import { furtherMetrics } from "./_further_metrics.ts";
import { groupMetrics } from "./_group_metrics.ts";
import type { HealthOptions, Inspectable } from "./health_options.ts";
import { StatusSource } from "./_status_source.ts";

/** The default of {@linkcode HealthOptions.checkTimeoutMs}. */
const CHECK_TIMEOUT_MS = 1_000;

/**
 * Tells how a group is doing, to probes, to Prometheus and to people. Mount it, or give the group a
 * `healthPort`.
 *
 * | path | answer |
 * |---|---|
 * | `/health/live` | 200, or 503 when a loop gives no sign of life; stays 200 while draining |
 * | `/health/ready` | 200, or 503 while starting, stopping, drained, or when a loop or a check is in trouble |
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
 * | `POST /drain`, `POST /resume` | takes no more work, and takes work again |
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
 * const group = new LoopGroup([new StepLoop("poller", ({ pause }) => pause(1_000))]);
 * const app = healthApp(group, { checks: { database: () => true } });
 * const response = await app.request("/health/ready");
 * console.assert(response.status === 503); // it does not run yet
 * ```
 */
export function healthApp(group: Inspectable, options: HealthOptions = {}): Hono {
  return hostedHealth(group, options, false).app;
}

/** The app, and how its streams are ended by a server that is its own. */
export function hostedHealth(
  group: Inspectable,
  options: HealthOptions,
  hosted = true,
): { readonly app: Hono; readonly events: Broadcast } {
  const { checks = {}, token, clock = systemClock, log = libraryLog } = options;
  const timeoutMs = checkInterval("checkTimeoutMs", options.checkTimeoutMs ?? CHECK_TIMEOUT_MS);
  const source = new StatusSource(group, options, timeoutMs);
  const events = new Broadcast(group, source, { hosted, clock, log });
  const app = new Hono();

  app.get("/health/live", ({ req }) => {
    return answer(liveChecks(group.health()), req.query("verbose"));
  });

  app.get("/health/ready", async ({ req }) => {
    const own = groupChecks(group.health());
    // Nobody needs to be asked where the answer is known.
    const others = own.every(({ ok }) => ok) || req.query("verbose") !== undefined
      ? await callChecks(checks, timeoutMs, clock, log)
      : [];
    return answer([...own, ...others], req.query("verbose"));
  });

  app.get("/metrics", async () => {
    const { exposition } = await import("./_exposition.ts");
    const metrics = [...groupMetrics(group), ...await furtherMetrics(options, clock, log)];
    const { text, contentType } = await exposition(metrics);
    return new Response(text, { headers: { "content-type": contentType } });
  });

  app.get("/status", async (context) => context.json(await source.look(), 200, NOT_KEPT));

  app.get("/events", ({ json }) => {
    if (events.full) return json({ error: "too many watch already" }, 503, NOT_KEPT);
    return new Response(events.stream(), { headers: STREAM });
  });

  app.get("/", async () => {
    const { PAGE, PAGE_POLICY } = await import("./_page.ts");
    return new Response(PAGE, {
      headers: { ...PAGE_HEADERS, "content-security-policy": PAGE_POLICY },
    });
  });

  if (token !== undefined) addControls(app, group, source, { token, timeoutMs, clock, log });
  return { app, events };
}

const NOT_KEPT = { "cache-control": "no-store" };

/** Nobody on the way may keep events, wait for more of them, or compress them. */
const STREAM = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-store, no-transform",
  "x-accel-buffering": "no",
};

const PAGE_HEADERS = {
  ...NOT_KEPT,
  "content-type": "text/html; charset=utf-8",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
};

const JSON_TYPE = { "content-type": "application/json" };

function answer(results: readonly CheckResult[], verbose: string | undefined): Response {
  const healthy = results.every(({ ok }) => ok);
  const status = healthy ? 200 : 503;
  if (verbose === undefined) {
    const body = `{"status":"${healthy ? "healthy" : "unhealthy"}"}`;
    return new Response(body, { status, headers: { ...NOT_KEPT, ...JSON_TYPE } });
  }
  const lines = results.map(({ name, ok, why }) => ok ? `ok ${name}` : `FAILED ${name}: ${why}`);
  return new Response(`${lines.join("\n")}\n`, { status, headers: NOT_KEPT });
}
