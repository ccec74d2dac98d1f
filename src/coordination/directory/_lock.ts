import { readFile, rename, rm, stat } from "node:fs/promises";
import type { Clock } from "../../clock.ts";
import { created, removed, unlessAbsent } from "./_files.ts";

/** A lock that is held for longer belongs to a dead process: work under a lock takes milliseconds. */
const DEAD_AFTER_MS = 5_000;

/** Calls the function while holding the lock, exclusively among all processes. */
export async function underLock<T>(path: string, clock: Clock, act: () => Promise<T>): Promise<T> {
  const nonce = crypto.randomUUID();
  let since = clock.now();
  while (!await created(path, nonce)) {
    await breakDeadLock(path, nonce, clock);
    await clock.sleep(1 + Math.random() * 4);
    since = clock.now();
  }
  try {
    return await act();
  } finally {
    // Held for longer, it may have been taken for dead, and be another's by now.
    const isOwn = clock.now() - since < DEAD_AFTER_MS / 2 ||
      await unlessAbsent(readFile(path, "utf8")) === nonce;
    if (isOwn) await removed(path);
  }
}

async function breakDeadLock(path: string, nonce: string, clock: Clock): Promise<void> {
  const found = await unlessAbsent(stat(path));
  if (found === undefined || clock.now() - found.mtimeMs < DEAD_AFTER_MS) return;
  const aside = `${path}.${nonce}`;
  await unlessAbsent(rename(path, aside));
  await rm(aside, { force: true });
}
