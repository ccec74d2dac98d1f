import type { Hono as HonoApp } from "hono";
import type { bearerAuth } from "hono/bearer-auth";
import { checkInterval } from "../_checks.ts";
import { type Clock, systemClock } from "../clock.ts";
import { safeLog } from "../library_log.ts";
import type { Log } from "../log.ts";
import type { ServeOptions } from "../runtime.ts";
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
import { makeProbes, NO_STORE } from "./_probes.ts";
import { StatusSource } from "./_status_source.ts";
import { checkToken, type HealthOptions, type Inspectable } from "./health_options.ts";

/** The parts of `hono` in use. They are parameters, so that a program without a health port needs no `hono`. */
export interface HonoPackage {
  readonly Hono: new () => HonoApp;
  readonly bearerAuth: typeof bearerAuth;
}

/** The default of {@linkcode HealthOptions.checkTimeoutMs}. */
const CHECK_TIMEOUT_MS = 1_000;

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

/** What {@linkcode healthRoutes} returns. */
interface HealthRoutes {
  readonly app: HonoApp;
  readonly answer: NonNullable<ServeOptions["answer"]>;
  readonly close: () => void;
}

/** What the routes share: the options with their defaults. */
interface Config {
  readonly group: Inspectable;
  readonly source: StatusSource;
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Returns the app, `answer`, which answers probes as the app does, and `close`, which ends its event streams and its
 * timers. `hosted` is true if its server calls it.
 */
export function healthRoutes(
  { Hono, bearerAuth }: HonoPackage,
  group: Inspectable,
  options: HealthOptions,
  hosted: boolean,
): HealthRoutes {
  const { token, clock = systemClock } = options;
  const log = safeLog(options.log);
  const timeoutMs = checkInterval("checkTimeoutMs", options.checkTimeoutMs ?? CHECK_TIMEOUT_MS);
  const source = new StatusSource(group, options, timeoutMs);
  const events = new Broadcast(group, source, { hosted, clock, log });
  const recorder = new HistoryRecorder(group, source, { clock, log });
  const probes = makeProbes(group, options.checks, { timeoutMs, clock, log });
  const app: HonoApp = new Hono();

  for (const [path, probe] of probes) {
    app.get(path, async ({ req }) => {
      const { body, ...init } = await probe(req.query("verbose") !== undefined);
      return new Response(body, init);
    });
  }

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
  // The routes without a query.
  const answer = (target: string) => probes.get(target)?.(false);
  return { app, answer, close };
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
