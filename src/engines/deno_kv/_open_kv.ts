import { errorText } from "../../errors.ts";
import { MailboxConnectionError } from "../../mailbox/errors.ts";
import type { Kv } from "./kv.ts";

/** The one place of the sources that knows this runtime: its store comes with it, and with nothing else. */
const { Deno } = globalThis as { Deno?: { openKv?(path?: string): Promise<Kv> } };

/** Opens the store at a path, or a URL, or the one that the runtime has for this program. */
export async function openKv(path: string | undefined): Promise<Kv> {
  if (Deno?.openKv === undefined) {
    throw new MailboxConnectionError(
      Deno === undefined
        ? "A mailbox on Deno KV needs Deno, and this is another runtime: use another engine, as SQLite"
        : 'A mailbox on Deno KV needs the flag --unstable-kv, or "unstable": ["kv"] in deno.json',
      { reason: "client_missing" },
    );
  }
  try {
    return await Deno.openKv(path);
  } catch (error) {
    const text = error instanceof Error ? error.message : errorText(error);
    throw new MailboxConnectionError(
      `Deno KV cannot be opened at ${place(path)}: ${text}; nothing was changed there`,
      { cause: error },
    );
  }
}

/** Where a path leads to, without what opens the door there. */
function place(path: string | undefined): string {
  if (path === undefined) return "its default place";
  if (!/^https?:/.test(path)) return JSON.stringify(path);
  return URL.canParse(path) ? JSON.stringify(new URL(path).host) : "that URL";
}
