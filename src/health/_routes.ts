import type { Context, Hono as HonoApp } from "hono";
import type { bearerAuth } from "hono/bearer-auth";
import { checkInterval } from "../_checks.ts";
import { settlesWithin } from "../_promises.ts";
import { type Clock, systemClock } from "../clock.ts";
import { errorText } from "../errors.ts";
import { safeLog } from "../library_log.ts";
import type { HealthSnapshot } from "../lifecycle/health_snapshot.ts";
import type { Log } from "../log.ts";
import { redrive } from "../loops/redrive.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import { Broadcast } from "./_broadcast.ts";
import { readDeadLetters } from "./mailbox_answer.ts";
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

/** The most messages that one request redrives, so that it ends. */
const MAX_REDRIVEN = 1_000;

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

/** Returns the app, and its event streams. `hosted` says that its server ends the streams by `close`. */
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

  app.get("/status", async (context) => context.json(await source.fresh(), 200, NO_STORE));

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
    const auth = bearerAuth({ token: checkToken(token) });
    addControls(app, auth, { group, source, timeoutMs, clock, log });
  }
  return { app, events };
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

  app.get("/dead-letters", auth, async (context) => {
    const mailbox = mailboxOf(context, source);
    if (mailbox instanceof Response) return mailbox;
    let letters: Awaited<ReturnType<typeof readDeadLetters>>;
    const reading = readDeadLetters(mailbox).then((found) => void (letters = found));
    await settlesWithin(reading, timeoutMs, clock);
    if (letters !== undefined) return context.json({ mailbox: mailbox.name, letters });
    return context.json({ error: `cannot read the dead letters of "${mailbox.name}" now` }, 503);
  });

  app.post("/redrive", auth, async (context) => {
    const mailbox = mailboxOf(context, source);
    if (mailbox instanceof Response) return mailbox;
    try {
      // Only as many as there are now: a message that fails again must not be redriven without an end.
      const count = await mailbox.deadLetters.approximateCount();
      const maxMessages = Math.min(count, MAX_REDRIVEN);
      const redriven = maxMessages > 0 ? await redrive(mailbox, { maxMessages, clock }) : 0;
      return context.json({ mailbox: mailbox.name, redriven });
    } catch (error) {
      log.error("redrive failed", { mailbox: mailbox.name, error });
      return context.json({ error: errorText(error) }, 503);
    }
  });
}

type Redrivable = Mailbox<unknown> & Required<Pick<Mailbox<unknown>, "deadLetters">>;

/** Returns the mailbox that a request names, or the error response. */
function mailboxOf(context: Context, source: StatusSource): Redrivable | Response {
  const name = context.req.query("mailbox");
  if (name === undefined) return context.json({ error: "name a mailbox: ?mailbox=…" }, 400);
  const mailbox = source.mailbox(name) as Partial<Redrivable> | undefined;
  if (mailbox === undefined) return context.json({ error: `there is no mailbox "${name}"` }, 404);
  if (mailbox.deadLetters !== undefined && mailbox.send !== undefined) return mailbox as Redrivable;
  return context.json({ error: `mailbox "${name}" has no dead letters` }, 404);
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
