import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  DenoKvMailbox,
  type DenoKvMailboxOptions,
  type Kv,
} from "../../../src/engines/deno_kv/mod.ts";
import { silentLog } from "../../../src/log.ts";

const { Deno } = globalThis as { Deno?: { openKv?(path?: string): Promise<Kv> } };

/** Options of a suite: it is skipped where Deno KV is not available. */
export const gate: { readonly skip: string | false } = {
  skip: Deno?.openKv === undefined && "no Deno KV: it needs Deno with --unstable-kv",
};

/** Opens a store. */
export function openStore(path: string): Promise<Kv> {
  return Deno!.openKv!(path);
}

/** A folder that is deleted at the end of a test. */
export class TempFolder implements Disposable {
  readonly path: string = mkdtempSync(join(tmpdir(), "lastcall-kv-"));

  file(name: string): string {
    return join(this.path, name);
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** Opens a mailbox in a new file. */
export async function openForTest(
  options: DenoKvMailboxOptions = {},
): Promise<
  {
    readonly mailbox: DenoKvMailbox<unknown>;
    readonly path: string;
    open(options?: DenoKvMailboxOptions): Promise<DenoKvMailbox<unknown>>;
  } & AsyncDisposable
> {
  const folder = new TempFolder();
  const path = folder.file("jobs.kv");
  const opened: DenoKvMailbox<unknown>[] = [];
  const open = async (more: DenoKvMailboxOptions = {}) => {
    const all = { log: silentLog, pollIntervalMs: 600_000, ...options, ...more };
    const mailbox = await DenoKvMailbox.open<unknown>(path, all);
    opened.push(mailbox);
    return mailbox;
  };
  return {
    mailbox: await open(),
    path,
    open,
    async [Symbol.asyncDispose]() {
      for (const mailbox of opened) await mailbox.close();
      folder[Symbol.dispose]();
    },
  };
}

/** Repeats `act` until it succeeds, for at most 20 s. */
export async function eventually<T>(act: () => Promise<T>): Promise<T> {
  for (const endsAt = Date.now() + 20_000;;) {
    try {
      return await act();
    } catch (error) {
      if (Date.now() > endsAt) throw error;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }
}
