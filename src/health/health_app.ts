import { Hono } from "hono";
import { bearerAuth } from "hono/bearer-auth";
import { checkInterval, show } from "../_checks.ts";
import { settlesWithin } from "../_promises.ts";
import { type Clock, systemClock } from "../clock.ts";
import { libraryLog } from "../library_log.ts";
import type { Log } from "../log.ts";
import { callChecks, type CheckResult, groupChecks, liveChecks } from "./_checks.ts";
import { groupMetrics } from "./_group_metrics.ts";
import type { HealthOptions, Inspectable } from "./health_options.ts";
import type { Metric } from "./metric_source.ts";

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
 * | `/status` | everything about the group, as JSON |
 * | `POST /drain`, `POST /resume` | with a `token` only: stop and go on taking work |
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
  const { checks = {}, token, clock = systemClock, log = libraryLog } = options;
  const timeoutMs = checkInterval("checkTimeoutMs", options.checkTimeoutMs ?? CHECK_TIMEOUT_MS);
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

  app.get("/status", (context) => context.json(group.health()));

  app.get("/metrics", async () => {
    const { exposition } = await import("./_exposition.ts");
    const metrics = [...groupMetrics(group), ...await furtherMetrics(options, clock, log)];
    const { text, contentType } = await exposition(metrics);
    return new Response(text, { headers: { "content-type": contentType } });
  });

  if (token !== undefined) {
    app.on("POST", ["/drain", "/resume"], bearerAuth({ token: checkToken(token) }));
    app.post("/drain", (context) => {
      group.drain().catch((error) => log.error("the group could not be drained", { error }));
      return context.json({ status: "draining" }, 202);
    });
    app.post("/resume", (context) => {
      group.resume();
      return context.json({ status: "resumed" });
    });
  }
  return app;
}

const JSON_TYPE = { "content-type": "application/json" };

function answer(results: readonly CheckResult[], verbose: string | undefined): Response {
  const healthy = results.every(({ ok }) => ok);
  const status = healthy ? 200 : 503;
  const headers = { "cache-control": "no-store" };
  if (verbose === undefined) {
    const body = `{"status":"${healthy ? "healthy" : "unhealthy"}"}`;
    return new Response(body, { status, headers: { ...headers, ...JSON_TYPE } });
  }
  const lines = results.map(({ name, ok, why }) => ok ? `ok ${name}` : `FAILED ${name}: ${why}`);
  return new Response(`${lines.join("\n")}\n`, { status, headers });
}

/** What takes too long, or fails, is left out: the other numbers are still worth having. */
async function furtherMetrics(
  { mailboxes = [], metrics = [] }: HealthOptions,
  clock: Clock,
  log: Log,
): Promise<readonly Metric[]> {
  const sources = [
    ...metrics.map((source) => async () => await source.metrics()),
    ...mailboxes.map(
      (mailbox) => async () => [mailboxMetric([mailbox.name, await mailbox.approximateCount()])],
    ),
  ];
  const collected = await Promise.all(sources.map(async (collect) => {
    let found: readonly Metric[] = [];
    const collecting = collect().then((metrics) => void (found = metrics), (error) => {
      log.warn("some metrics could not be collected", { error });
    });
    await settlesWithin(collecting, CHECK_TIMEOUT_MS, clock);
    return found;
  }));
  return merged(collected.flat());
}

function mailboxMetric([mailbox, value]: readonly [string, number]): Metric {
  return {
    name: "lastcall_mailbox_messages",
    help: "Messages in a mailbox, whatever their state.",
    type: "gauge",
    samples: [{ labels: { mailbox }, value }],
  };
}

/** Each name once, with the samples of all. */
function merged(metrics: readonly Metric[]): readonly Metric[] {
  const byName = new Map<string, Metric>();
  for (const metric of metrics) {
    const samples = [...byName.get(metric.name)?.samples ?? [], ...metric.samples];
    byName.set(metric.name, { ...metric, samples });
  }
  return [...byName.values()];
}

/** A short one is guessed. */
function checkToken(token: string): string {
  if (typeof token === "string" && /^[\w.~+/=-]{16,}$/.test(token)) return token;
  throw new TypeError(
    `Invalid token: expected at least 16 letters, digits or one of -._~+/=, got ${
      typeof token === "string" ? `${token.length} characters` : show(token)
    }`,
  );
}
