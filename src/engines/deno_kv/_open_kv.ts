import { parseUrl } from "../../_checks.ts";
import { errorText } from "../../errors.ts";
import { MailboxConnectionError } from "../../mailbox/errors.ts";
import type { Kv } from "./kv.ts";

/** The only use of a runtime global in `src/`: no other runtime has Deno KV. */
const { Deno } = globalThis as { Deno?: { openKv?(path?: string): Promise<Kv> } };

/** Opens the store at a path or a URL, or the default store of this program. */
export async function openKv(path: string | undefined): Promise<Kv> {
  if (Deno?.openKv === undefined) {
    throw new MailboxConnectionError(
      Deno === undefined
        ? "A mailbox on Deno KV needs Deno, and this is another runtime: use another engine, such as SQLite"
        : 'A mailbox on Deno KV needs the flag --unstable-kv, or "unstable": ["kv"] in deno.json',
      { reason: "client_missing" },
    );
  }
  try {
    return await Deno.openKv(path);
  } catch (error) {
    const text = error instanceof Error ? error.message : errorText(error);
    throw new MailboxConnectionError(
      `Deno KV cannot be opened at ${
        placeOf(path)
      }: ${text}. Nothing was changed there; check the ` +
        "path or the URL",
      { cause: error },
    );
  }
}

/** Returns a path, or the host of a URL, without credentials. */
function placeOf(path: string | undefined): string {
  if (path === undefined) return "its default location";
  if (!/^https?:/.test(path)) return JSON.stringify(path);
  const url = parseUrl(path);
  return url === undefined ? "that URL" : JSON.stringify(url.host);
}
