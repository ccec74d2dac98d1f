// The token: kept for this tab alone, and sent in the header of what needs it.

import { BASE } from "./connection.ts";

const KEY = `lastcall token ${BASE}`;

/** What came of a request. */
export type Outcome<T> =
  | { readonly kind: "done"; readonly answer: T }
  | { readonly kind: "refused" }
  | { readonly kind: "failed"; readonly why: string };

/** The token of this tab. */
export function storedToken(): string | undefined {
  return sessionStorage.getItem(KEY) ?? undefined;
}

/** Keeps it, or forgets it. */
export function storeToken(token: string | undefined): void {
  if (token === undefined) sessionStorage.removeItem(KEY);
  else sessionStorage.setItem(KEY, token);
}

/** Asks with the token. */
export async function ask<T>(
  method: "GET" | "POST",
  path: string,
  token: string,
): Promise<Outcome<T>> {
  // Anything else cannot be sent in a header, and cannot be right.
  if (!/^[\x21-\x7e]+$/.test(token)) return { kind: "refused" };
  try {
    const headers = { authorization: `Bearer ${token}` };
    const response = await fetch(`${BASE}${path}`, { method, headers, cache: "no-store" });
    if (response.status === 401 || response.status === 400) return { kind: "refused" };
    const answer = await response.json();
    if (response.ok) return { kind: "done", answer };
    return { kind: "failed", why: String(answer.error ?? response.status) };
  } catch {
    return { kind: "failed", why: "there was no answer" }; // the connection is shown as lost as well
  }
}
