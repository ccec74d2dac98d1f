// Asks a health app, and says in one line why it cannot be asked.

import { Option } from "commander";
import { systemClock } from "../mod.ts";
import type { LoopStatus, Status } from "../src/health/status.ts";
import type { HealthSnapshot, LoopHealth } from "../src/lifecycle/health_snapshot.ts";
import { CliError, textOf, usageError } from "./_errors.ts";
import { ageText } from "./_duration.ts";

/** A status as any version of the package answers it: the snapshot, and what else there may be. */
export interface StatusAnswer extends HealthSnapshot, Omit<Partial<Status>, keyof HealthSnapshot> {
  readonly loops: readonly (LoopHealth & Partial<LoopStatus>)[];
}

/** A check that does not hold, as `/health/ready` tells it. */
export interface FailedCheck {
  readonly name: string;
  readonly why: string;
}

/** How long an answer may take. */
const PATIENCE_MS = 5_000;

/** The token, as each command takes it that changes something. */
export function tokenOption(): Option {
  return new Option("--token <token>", "the token of the health app; better given by environment")
    .env("LASTCALL_TOKEN");
}

/** What `/status` says. */
export async function askStatus(base: string, signal?: AbortSignal): Promise<StatusAnswer> {
  const response = await request(
    `${base}/status`,
    { headers: { accept: "application/json" } },
    signal,
  );
  const body: unknown = await response.json().catch(() => undefined);
  if (response.ok && isStatus(body)) return body;
  throw new CliError(
    "failed",
    `${base} is no health app of lastcall: its /status answers ${response.status}` +
      (response.ok ? " with something else" : ""),
  );
}

/** Whether `/health/ready` is red, and the checks that it names then. */
export async function askReady(
  base: string,
  signal?: AbortSignal,
): Promise<{ readonly ready: boolean; readonly failed: readonly FailedCheck[] }> {
  const response = await request(`${base}/health/ready?verbose`, {}, signal);
  const lines = (await response.text()).split("\n");
  const failed = lines.flatMap((line) => {
    const [, name, why] = /^FAILED (.+?): (.*)$/.exec(line) ?? [];
    return name === undefined || why === undefined ? [] : [{ name, why }];
  });
  return { ready: response.status !== 503, failed };
}

/** Tells it to drain, or to go on. */
export async function order(
  base: string,
  word: "drain" | "resume",
  token: string | undefined,
): Promise<void> {
  if (token === undefined || token === "") {
    throw usageError(`To ${word} needs the token of the health app: --token, or LASTCALL_TOKEN`);
  }
  if (!/^[\w.~+/=-]+$/.test(token)) {
    throw usageError(
      "The token has characters that no token has: letters, digits and -._~+/= only",
    );
  }
  const headers = { authorization: `Bearer ${token}` };
  const { status } = await request(`${base}/${word}`, { method: "POST", headers });
  if (status === 200 || status === 202) return;
  throw new CliError("failed", refusal(base, word, status));
}

function refusal(base: string, word: string, status: number): string {
  if (status === 401) return `${base} refuses the token: it was started with another one`;
  if (status === 404) {
    return `${base} does not ${word} for anybody: start it with a token ` +
      "(run --token, or `health: { token }` of the group)";
  }
  return `${base} does not ${word}: it answers ${status}`;
}

async function request(url: string, init: RequestInit, signal?: AbortSignal): Promise<Response> {
  const abort = new AbortController();
  const giveUp = () => abort.abort();
  const cancel = systemClock.schedule(PATIENCE_MS, giveUp);
  signal?.addEventListener("abort", giveUp);
  try {
    const response = await fetch(url, { ...init, redirect: "manual", signal: abort.signal });
    // Read here, where it is bounded too.
    const body = await response.text();
    const bare = response.status === 204 || response.status === 304 || response.status < 200;
    return new Response(bare ? null : body, { status: bare ? 200 : response.status });
  } catch (error) {
    const { origin } = new URL(url);
    const why = abort.signal.aborted ? `no answer within ${ageText(PATIENCE_MS)}` : reasonOf(error);
    throw new CliError("unavailable", `Nothing answers at ${origin}: ${why}`, { cause: error });
  } finally {
    cancel();
    signal?.removeEventListener("abort", giveUp);
  }
}

/** Each runtime has words of its own for the same few things. */
function reasonOf(error: unknown): string {
  const words: string[] = [];
  for (let at = error; at instanceof Error; at = at.cause) {
    words.push(`${(at as { code?: unknown }).code ?? ""} ${at.message}`);
  }
  const all = words.join(" ");
  if (/refused|ECONNREFUSED|Unable to connect/i.test(all)) return "the connection is refused";
  if (/ENOTFOUND|EAI_AGAIN|dns|lookup|resolve/i.test(all)) return "there is no such host";
  if (/reset|ECONNRESET|closed/i.test(all)) return "the connection broke";
  return textOf(error);
}

function isStatus(body: unknown): body is StatusAnswer {
  const { phase, ready, loops } = Object(body);
  return typeof phase === "string" && typeof ready === "boolean" && Array.isArray(loops);
}
