import type { Hono as HonoApp } from "hono";
import type { bearerAuth } from "hono/bearer-auth";
import { checkInterval } from "../_checks.ts";
import { settlesWithin } from "../_promises.ts";
import { type Clock, systemClock } from "../clock.ts";
import { safeLog } from "../library_log.ts";
import type { HealthSnapshot } from "../lifecycle/health_snapshot.ts";
import type { Log } from "../log.ts";
import { Broadcast } from "./_broadcast.ts";
import { HistoryRecorder } from "./_history.ts";
import { addMessageRoutes } from "./_message_routes.ts";
import {
  groupMetrics,
  PROMETHEUS_TYPE,
  prometheusText,
  SOURCE_TIMEOUT_MS,
  sourceMetrics,
} from "./_metrics.ts";
import { StatusSource } from "./_status_source.ts";
import { checkToken, type HealthOptions, type Inspectable } from "./health_options.ts";

/** The parts of `hono` in use. They are parameters, so that a program without a health port needs no `hono`. */
export interface HonoPackage {
  readonly Hono: new () => HonoApp;
  readonly bearerAuth: typeof bearerAuth;
}

/** The default of {@linkcode HealthOptions.checkTimeoutMs}. */
const CHECK_TIMEOUT_MS = 1_000;

const NO_STORE = { "cache-control": "no-store" };

/** Proxies must not cache, buffer or compress events. */
const STREAM_HEADERS = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-store, no-transform",
  "x-accel-buffering": "no",
};

const PAGE_HEADERS = {
  ...NO_STORE,
  "content-type": "text/html; charset=utf-8",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
};

/** What the routes share: the options with their defaults. */
interface Config {
  readonly group: Inspectable;
  readonly source: StatusSource;
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly log: Log;
}

/** Returns the app, and `close`, which ends its event streams and its timers. `hosted` says that its server calls it. */
export function healthRoutes(
  { Hono, bearerAuth }: HonoPackage,
  group: Inspectable,
  options: HealthOptions,
  hosted: boolean,
): { readonly app: HonoApp; readonly close: () => void } {
  const { checks = {}, token, clock = systemClock } = options;
  const log = safeLog(options.log);
  const timeoutMs = checkInterval("checkTimeoutMs", options.checkTimeoutMs ?? CHECK_TIMEOUT_MS);
  const source = new StatusSource(group, options, timeoutMs);
  const events = new Broadcast(group, source, { hosted, clock, log });
  const recorder = new HistoryRecorder(group, source, { clock, log });
  const app: HonoApp = new Hono();

  app.get("/health/live", ({ req }) => {
    return checksResponse(liveChecks(group.health()), req.query("verbose"));
  });

  app.get("/health/ready", async ({ req }) => {
    const verbose = req.query("verbose");
    const own = readyChecks(group.health());
    // The checks of the options cannot change the answer when the group itself is not ready.
    const others = own.every(({ ok }) => ok) || verbose !== undefined
      ? await Promise.all(
        Object.entries(checks).map(([name, check]) => {
          return callCheck(name, check, { timeoutMs, clock, log });
        }),
      )
      : [];
    return checksResponse([...own, ...others], verbose);
  });

  app.get("/metrics", async () => {
    const [ofMailboxes, ofSources] = await Promise.all([
      source.mailboxMetrics(SOURCE_TIMEOUT_MS),
      sourceMetrics(options.metrics ?? [], clock, log),
    ]);
    const metrics = [...groupMetrics(group), ...ofMailboxes, ...ofSources];
    return new Response(prometheusText(metrics), { headers: { "content-type": PROMETHEUS_TYPE } });
  });

  app.get("/status", async (context) => {
    const isSummary = context.req.query("summary") === "true";
    return context.json(isSummary ? source.summary() : await source.fresh(), 200, NO_STORE);
  });

  app.get("/history", (context) => context.json(recorder.history, 200, NO_STORE));

  app.get("/events", (context) => {
    if (events.full) return context.json({ error: "too many clients" }, 503, NO_STORE);
    return new Response(events.stream(), { headers: STREAM_HEADERS });
  });

  app.get("/", async () => {
    const { PAGE, PAGE_POLICY } = await import("./_page.ts");
    return new Response(PAGE, {
      headers: { ...PAGE_HEADERS, "content-security-policy": PAGE_POLICY },
    });
  });

  if (token !== undefined) {
    const [none, wrong] = [{ error: "send the token of the health app" }, { error: "wrong token" }];
    const auth = bearerAuth({
      token: checkToken(token),
      noAuthenticationHeader: { message: none },
      invalidAuthenticationHeader: { message: none },
      invalidToken: { message: wrong },
    });
    addControls(app, auth, { group, source, timeoutMs, clock, log });
  }
  const close = () => {
    recorder.close();
    events.close();
  };
  return { app, close };
}

/** Adds the routes that need the token. */
function addControls(
  app: HonoApp,
  auth: ReturnType<typeof bearerAuth>,
  { group, source, timeoutMs, clock, log }: Config,
): void {
  app.get("/controls", auth, (context) => context.json({ status: "allowed" }));

  app.post("/pause", auth, (context) => {
    group.pause().catch((error) => log.error("pause failed", { error }));
    return context.json({ status: "pausing" }, 202);
  });

  app.post("/resume", auth, (context) => {
    group.resume();
    return context.json({ status: "resumed" });
  });

  addMessageRoutes(app, auth, {
    mailbox: (name) => source.mailbox(name),
    ...{ timeoutMs, clock, log },
  });
}

/** The result of one check. The reason is public; the error goes only to the log. */
interface CheckResult {
  readonly name: string;
  readonly ok: boolean;
  readonly why?: string;
}

function readyChecks({ phase, paused, loops }: HealthSnapshot): readonly CheckResult[] {
  return [
    result("phase", phase === "running" && !paused, paused ? "paused" : phase),
    ...loops.map(({ name, ready, state }) => {
      return result(`loop ${name}`, ready || state === "failed", `${state}, not ready`);
    }),
  ];
}

function liveChecks({ live, loops }: HealthSnapshot): readonly CheckResult[] {
  const ages = loops.map(({ name, heartbeatAgeMs = 0 }) => `${name} ${heartbeatAgeMs} ms`);
  return [result("heartbeats", live, `last heartbeats: ${ages.join(", ")}`)];
}

async function callCheck(
  name: string,
  check: NonNullable<HealthOptions["checks"]>[string],
  { timeoutMs, clock, log }: Pick<Config, "timeoutMs" | "clock" | "log">,
): Promise<CheckResult> {
  const abort = new AbortController();
  let why: string | undefined;
  const done = Promise.resolve().then(() => check({ signal: abort.signal })).then((answer) => {
    if (answer === false) why = "failed";
  }, (error) => {
    why = "failed";
    if (!abort.signal.aborted) log.warn("health check failed", { check: name, error });
  });
  if (!await settlesWithin(done, timeoutMs, clock)) {
    abort.abort();
    log.warn("health check timed out", { check: name, timeoutMs });
    why = `no answer within ${timeoutMs} ms`;
  }
  return result(name, why === undefined, why ?? "");
}

function result(name: string, ok: boolean, why: string): CheckResult {
  return ok ? { name, ok } : { name, ok, why };
}

function checksResponse(results: readonly CheckResult[], verbose: string | undefined): Response {
  const healthy = results.every(({ ok }) => ok);
  const status = healthy ? 200 : 503;
  if (verbose === undefined) {
    const body = { status: healthy ? "healthy" : "unhealthy" };
    return Response.json(body, { status, headers: NO_STORE });
  }
  const lines = results.map(({ name, ok, why }) => ok ? `ok ${name}` : `FAILED ${name}: ${why}`);
  return new Response(`${lines.join("\n")}\n`, { status, headers: NO_STORE });
}
