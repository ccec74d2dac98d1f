// The client of the health app: status events, and requests with the token.

import type { Status } from "../src/health/status.ts";

/** The path where the health app is mounted, with a trailing slash. */
export const BASE: string = location.pathname.replace(/\/?$/, "/");

/** Receives the events of a group. */
export interface Listener {
  onStatus(status: Status): void;
  /** Called with true after a while without events, and with false at each event. */
  onLost(lost: boolean): void;
}

/** Events arrive every second. A short reconnect does not count as a loss. */
const LOST_AFTER_MS = 3_500;
const RECONNECT_MS = 2_000;

/** Subscribes to the status events, and reconnects for as long as the page is open. */
export function subscribe(listener: Listener): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const restartTimer = () => {
    clearTimeout(timer);
    timer = setTimeout(() => listener.onLost(true), LOST_AFTER_MS);
  };
  const receive = ({ data }: MessageEvent<string>) => {
    restartTimer();
    listener.onLost(false);
    listener.onStatus(JSON.parse(data));
  };
  const open = () => {
    const source = new EventSource(`${BASE}events`);
    source.addEventListener("message", receive);
    source.addEventListener("end", receive);
    source.addEventListener("error", () => {
      // Browsers reconnect after a lost connection, but not after a response such as 503.
      if (source.readyState !== EventSource.CLOSED) return;
      setTimeout(open, RECONNECT_MS);
    });
  };
  restartTimer();
  open();
}

/** The token is kept for this tab only. */
const TOKEN_KEY = `lastcall token ${BASE}`;

/** The result of a request with the token. */
export type Outcome<T> =
  | { readonly kind: "done"; readonly answer: T }
  | { readonly kind: "refused" }
  | { readonly kind: "failed"; readonly why: string };

/** Returns the token of this tab. */
export function storedToken(): string | undefined {
  return sessionStorage.getItem(TOKEN_KEY) ?? undefined;
}

/** Stores the token, or removes it. */
export function storeToken(token: string | undefined): void {
  if (token === undefined) sessionStorage.removeItem(TOKEN_KEY);
  else sessionStorage.setItem(TOKEN_KEY, token);
}

/** The token, and its setter: undefined removes the token. */
export interface Access {
  readonly token: string | undefined;
  readonly onToken: (token: string | undefined) => void;
}

/** Sends a request with the token. */
export async function send<T>(
  method: "GET" | "POST",
  path: string,
  token: string,
  body?: unknown,
): Promise<Outcome<T>> {
  // A token has no other characters, and a header cannot carry some of them.
  if (!/^[\w.~+/=-]+$/.test(token)) return { kind: "refused" };
  try {
    const json = body === undefined ? undefined : JSON.stringify(body);
    const headers = {
      authorization: `Bearer ${token}`,
      ...(json && { "content-type": "application/json" }),
    };
    const init = { method, headers, cache: "no-store", ...(json && { body: json }) } as const;
    const response = await fetch(`${BASE}${path}`, init);
    if (response.status === 401) return { kind: "refused" };
    const answer = await response.json().catch(() => undefined);
    if (response.ok && answer !== undefined) return { kind: "done", answer };
    return { kind: "failed", why: String(answer?.error ?? `status ${response.status}`) };
  } catch {
    return { kind: "failed", why: "no answer" };
  }
}

/** Reads a public document; undefined without an answer. */
export async function read<T>(path: string): Promise<T | undefined> {
  try {
    const response = await fetch(`${BASE}${path}`, { cache: "no-store" });
    return response.ok ? await response.json() : undefined;
  } catch {
    return undefined;
  }
}
