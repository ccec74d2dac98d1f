// The health app: its HTTP client for `status`, `pause`, `resume` and `doctor`, and the checks of its port
// before a group listens there.

import type { IncomingMessage } from "node:http";
import { createServer } from "node:net";
import { checkToken } from "../src/health/health_options.ts";
import { loadHono } from "../src/health/health_server.ts";
import type { LoopStatus, Status } from "../src/health/status.ts";
import { statusFields } from "../src/health/status_check.ts";
import type { HealthSnapshot, LoopHealth } from "../src/lifecycle/health_snapshot.ts";
import { defaultRuntime } from "../src/runtime.ts";
import { redactUrl } from "../src/engines/_kit/mailbox_url.ts";
import { asUsage, CliError, messageOf, usageError } from "./_errors.ts";
import { ageText } from "./_print.ts";

/** A status as any version of the package answers it: fields beyond the snapshot may be missing. */
export interface StatusAnswer extends HealthSnapshot, Omit<Partial<Status>, keyof HealthSnapshot> {
  readonly loops: readonly (LoopHealth & Partial<LoopStatus>)[];
}

/** A failed readiness check. */
export interface FailedCheck {
  readonly name: string;
  readonly why: string;
}

/** Counts the work in flight of all loops. */
export function inFlightOf({ loops }: StatusAnswer): number {
  return loops.reduce((sum, { inFlight }) => sum + inFlight, 0);
}

const TIMEOUT_MS = 5_000;

/** The paths of the health app, which users often copy along with its address. */
const KNOWN_PATHS = /\/(status|metrics|pause|resume|health\/(live|ready))?\/?$/;

/**
 * Returns the base URL of a health app, without a trailing slash. It accepts `http://host:8080`,
 * `https://host/base`, `host:8080`, `:8080`, and the URL of one of the app's paths. An error says what the
 * command has `expected`.
 */
export function healthUrl(text: string, expected: string = "of a health app"): string {
  const given = /^https?:\/\//i.test(text)
    ? text
    : `http://${text.replace(/^(?=:\d)/, "localhost")}`;
  const url = parseUrl(given);
  // "http://redis://host" would parse, with "redis" as the host.
  const otherScheme = /^[a-z][a-z0-9+.-]*:\/\//i.test(text) && given !== text;
  if (url === undefined || url.hostname === "" || otherScheme) {
    throw usageError(
      `${redactUrl(text)} is not the URL ${expected}: write http://host:8080 or host:8080`,
    );
  }
  if (url.username !== "" || url.password !== "") {
    throw usageError("The health app takes no user or password: remove them, and use --token");
  }
  return `${url.origin}${url.pathname.replace(KNOWN_PATHS, "")}`;
}

/** `URL.canParse` accepts some texts that `new URL` refuses. */
function parseUrl(text: string): URL | undefined {
  try {
    return new URL(text);
  } catch {
    return undefined;
  }
}

/** Fetches `/status`. */
export async function fetchStatus(base: string, signal?: AbortSignal): Promise<StatusAnswer> {
  const { status, text } = await request(`${base}/status`, {
    headers: { accept: "application/json" },
    signal,
  });
  const ok = status >= 200 && status < 300;
  const body = ok ? statusFields(parseJson(text)) : {};
  if (isStatus(body)) return body;
  throw new CliError(
    "failed",
    `${base} is not a health app of lastcall: /status answered ${status}` +
      (ok ? " with an unknown format" : ""),
  );
}

/** Fetches `/health/ready`: whether the group is ready, and the checks that failed. */
export async function fetchReadiness(
  base: string,
  signal?: AbortSignal,
): Promise<{ readonly ready: boolean; readonly failed: readonly FailedCheck[] }> {
  const { status, text } = await request(`${base}/health/ready?verbose`, { signal });
  const failed = text.split("\n").flatMap((line) => {
    const [, name, why] = /^FAILED (.+?): (.*)$/.exec(line) ?? [];
    return name === undefined || why === undefined ? [] : [{ name, why }];
  });
  return { ready: status !== 503, failed };
}

/** Tells the group to pause or to resume. */
export async function sendControl(
  base: string,
  control: "pause" | "resume",
  token: string | undefined,
): Promise<void> {
  if (token === undefined || token === "") {
    throw usageError(`${control} needs the token of the health app: set --token or LASTCALL_TOKEN`);
  }
  if (!/^[\w.~+/=-]+$/.test(token)) {
    throw usageError("Invalid token: only letters, digits and -._~+/= are allowed");
  }
  const headers = { authorization: `Bearer ${token}` };
  const { status } = await request(`${base}/${control}`, { method: "POST", headers });
  if (status === 200 || status === 202) return;
  throw new CliError("failed", refusal(base, control, status));
}

function refusal(base: string, control: string, status: number): string {
  if (status === 401) return `${base} refused the token: the group was started with another one`;
  if (status === 404) {
    return `${base} cannot ${control}: start the group with a token ` +
      "(run --token, or `health: { token }` of the group)";
  }
  return `${base} cannot ${control}: it answered ${status}`;
}

interface RequestOptions {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
}

/** Uses `node:http` and not `fetch`, whose errors have a `code` on some runtimes only. */
async function request(
  url: string,
  { method = "GET", headers = {}, signal }: RequestOptions,
): Promise<{ readonly status: number; readonly text: string }> {
  const { protocol, origin } = new URL(url);
  const client = await (protocol === "https:" ? import("node:https") : import("node:http"));
  const limits = [AbortSignal.timeout(TIMEOUT_MS), ...(signal === undefined ? [] : [signal])];
  const options = { method, headers, agent: false, signal: AbortSignal.any(limits) } as const;
  try {
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      client.request(url, options, resolve).on("error", reject).end();
    });
    let text = "";
    for await (const chunk of response.setEncoding("utf8")) text += chunk;
    return { status: response.statusCode ?? 0, text };
  } catch (error) {
    const why = options.signal.aborted ? `no answer within ${ageText(TIMEOUT_MS)}` : reason(error);
    throw new CliError("unavailable", `Cannot reach ${origin}: ${why}`, { cause: error });
  }
}

const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "connection refused",
  ENOTFOUND: "host not found",
  EAI_AGAIN: "host not found",
  ECONNRESET: "connection lost",
};

function reason(error: unknown): string {
  return REASONS[String(Object(error).code)] ?? messageOf(error);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isStatus(body: Partial<StatusAnswer>): body is StatusAnswer {
  return body.phase !== undefined && body.ready !== undefined && body.loops !== undefined;
}

/** The health options of `run` and `demo`. */
export interface HealthFlags {
  readonly healthPort?: number;
  readonly healthHost?: string;
  readonly token?: string;
}

/**
 * Checks the token, the optional packages and the port.
 *
 * @throws {CliError} when one of them cannot be used.
 */
export async function checkHealth({ healthPort, healthHost, token }: HealthFlags): Promise<void> {
  if (token !== undefined) asUsage(() => checkToken(token));
  if (healthPort === undefined) return;
  await checkHealthPackages();
  await checkPort(healthPort, healthHost ?? "0.0.0.0");
}

/** Throws a usage error that names the packages that serving needs and that are not installed. */
export async function checkHealthPackages(): Promise<void> {
  try {
    await loadHono("--health-port", defaultRuntime());
  } catch (error) {
    throw usageError(messageOf(error), { cause: error });
  }
}

/** Listens on the port for a moment. */
export function checkPort(port: number, host: string): Promise<void> {
  const server = createServer();
  return new Promise((resolve, reject) => {
    server.once("error", (error) => {
      const message = `Cannot listen on ${host}:${port}: ${messageOf(error)}`;
      reject(new CliError("failed", message, { cause: error }));
    });
    server.listen(port, host, () => server.close(() => resolve()));
  });
}
