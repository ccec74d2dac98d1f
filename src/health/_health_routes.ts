import type { Hono as HonoApp } from "hono";
import type { bearerAuth } from "hono/bearer-auth";
import { checkInterval } from "../_checks.ts";
import { systemClock } from "../clock.ts";
import { safeLog } from "../library_log.ts";
import { Broadcast } from "./_broadcast.ts";
import { callChecks, type CheckResult, groupChecks, liveChecks } from "./_checks.ts";
import { addControls } from "./_controls.ts";
import { exposition, EXPOSITION_TYPE } from "./_exposition.ts";
import { furtherMetrics } from "./_further_metrics.ts";
import { groupMetrics } from "./_group_metrics.ts";
import type { HealthOptions, Inspectable } from "./health_options.ts";
import { StatusSource } from "./_status_source.ts";

/** The default of {@linkcode HealthOptions.checkTimeoutMs}. */
const CHECK_TIMEOUT_MS = 1_000;

/** What is used of `hono`. It is handed in, so that a program without a health port can do without. */
export interface HonoPackage {
  readonly Hono: new () => HonoApp;
  readonly bearerAuth: typeof bearerAuth;
}

/** The app, and how its streams are ended by a server that is its own. */
export function healthRoutes(
  { Hono, bearerAuth }: HonoPackage,
  group: Inspectable,
  options: HealthOptions,
  hosted: boolean,
): { readonly app: HonoApp; readonly events: Broadcast } {
  const { checks = {}, token, clock = systemClock } = options;
  const log = safeLog(options.log);
  const timeoutMs = checkInterval("checkTimeoutMs", options.checkTimeoutMs ?? CHECK_TIMEOUT_MS);
  const source = new StatusSource(group, options, timeoutMs);
  const events = new Broadcast(group, source, { hosted, clock, log });
  const app: HonoApp = new Hono();

  app.get("/health/live", ({ req }) => {
    return answer(liveChecks(group.health()), req.query("verbose"));
  });

  app.get("/health/ready", async ({ req }) => {
    const own = groupChecks(group.health());
    // The other checks are not called where the answer is known.
    const others = own.every(({ ok }) => ok) || req.query("verbose") !== undefined
      ? await callChecks(checks, timeoutMs, clock, log)
      : [];
    return answer([...own, ...others], req.query("verbose"));
  });

  app.get("/metrics", async () => {
    const metrics = [...groupMetrics(group), ...await furtherMetrics(options, clock, log)];
    return new Response(exposition(metrics), { headers: { "content-type": EXPOSITION_TYPE } });
  });

  app.get("/status", async (context) => context.json(await source.look(), 200, NOT_KEPT));

  app.get("/events", (context) => {
    if (events.full) return context.json({ error: "too many watch already" }, 503, NOT_KEPT);
    return new Response(events.stream(), { headers: STREAM });
  });

  app.get("/", async () => {
    const { PAGE, PAGE_POLICY } = await import("./_page.ts");
    return new Response(PAGE, {
      headers: { ...PAGE_HEADERS, "content-security-policy": PAGE_POLICY },
    });
  });

  if (token !== undefined) {
    addControls(app, bearerAuth, group, source, { token, timeoutMs, clock, log });
  }
  return { app, events };
}

const NOT_KEPT = { "cache-control": "no-store" };

/** Proxies must not cache, buffer or compress events. */
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
