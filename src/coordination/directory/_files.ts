import {
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  unlink,
  utimes,
  watch,
  writeFile,
} from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { Clock } from "../../clock.ts";
import type { Log } from "../../log.ts";
import { systemRandom } from "../../random.ts";

/** Writes a file atomically: under another name first, then renamed. */
export async function writeWhole(path: string, text: string, atMs?: number): Promise<void> {
  const draft = join(dirname(path), `.${basename(path)}.${systemRandom.id()}.tmp`);
  try {
    await writeFile(draft, text);
    if (atMs !== undefined) await utimes(draft, atMs / 1_000, atMs / 1_000);
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}

/** Renames a file. Returns false when another process has renamed or removed it. */
export async function moveFile(from: string, to: string): Promise<boolean> {
  return await unlessAbsent(rename(from, to).then(() => true)) ?? false;
}

/** Removes a file. Returns false when it does not exist. */
export async function removeFile(path: string): Promise<boolean> {
  return await unlessAbsent(unlink(path).then(() => true)) ?? false;
}

/** An entry of a folder with the name of a JSON file. */
export interface JsonEntry {
  readonly name: string;
  /** False for a folder, a link or a pipe, which must not be opened. */
  readonly isFile: boolean;
}

/** Returns the entries of a folder that have the name of a JSON file. */
export async function jsonEntries(folder: string): Promise<readonly JsonEntry[]> {
  const entries = await unlessAbsent(readdir(folder, { withFileTypes: true })) ?? [];
  return entries.filter(({ name }) => isJsonFile(name)).map((entry) => {
    return { name: entry.name, isFile: entry.isFile() };
  });
}

/** Returns whether a name is that of a JSON file. A name with a leading dot is an unfinished file. */
export function isJsonFile(name: string): boolean {
  return name.endsWith(".json") && !name.startsWith(".");
}

/** Creates folders that do not exist. */
export async function makeFolders(...folders: readonly string[]): Promise<void> {
  for (const folder of folders) await mkdir(folder, { recursive: true });
}

/** Returns the value, or undefined when a file does not exist. */
export async function unlessAbsent<T>(promise: Promise<T>): Promise<T | undefined> {
  try {
    return await promise;
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  }
}

/** Returns the code of a system error. */
export function codeOf(error: unknown): string {
  return String((error as { readonly code?: unknown } | null)?.code ?? "");
}

/**
 * Calls `listener` with the name of each entry of a folder that changes, or with undefined where the system
 * does not report the name. It may miss changes, so callers also poll.
 */
export function watchFolder(
  folder: string,
  listener: (name: string | undefined) => void,
  log: Log,
): () => void {
  const ended = new AbortController();
  const listen = async () => {
    try {
      for await (const { filename } of watch(folder, { signal: ended.signal })) {
        listener(filename ?? undefined);
      }
    } catch (error) {
      if (!ended.signal.aborted) log.debug("folder watch failed; polling", { folder, error });
    }
  };
  void listen();
  return () => ended.abort();
}

/** Calls `act` for each item, 16 at a time, because a process can open only so many files. */
export async function mapFiles<T, R>(
  items: readonly T[],
  act: (item: T) => Promise<R>,
): Promise<R[]> {
  const results: R[] = new Array(items.length);
  let next = 0;
  const work = async () => {
    for (let i = next++; i < items.length; i = next++) results[i] = await act(items[i]!);
  };
  await Promise.all(Array.from({ length: Math.min(16, items.length) }, work));
  return results;
}

/** A lock that is older belongs to a dead process: work under a lock takes milliseconds. */
const DEAD_LOCK_MS = 5_000;

/** Calls `act` while holding the lock file, exclusively among all processes. */
export async function underLock<T>(path: string, clock: Clock, act: () => Promise<T>): Promise<T> {
  const owner = systemRandom.id();
  let since = clock.now();
  while (!await createFile(path, owner)) {
    await breakDeadLock(path, owner, clock);
    await clock.sleep(1 + systemRandom.number() * 4);
    since = clock.now();
  }
  try {
    return await act();
  } finally {
    // After a long time another process may have broken the lock and taken it.
    const isOwn = clock.now() - since < DEAD_LOCK_MS / 2 ||
      await unlessAbsent(readFile(path, "utf8")) === owner;
    if (isOwn) await removeFile(path);
  }
}

async function createFile(path: string, text: string): Promise<boolean> {
  try {
    await writeFile(path, text, { flag: "wx" });
    return true;
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    throw error;
  }
}

async function breakDeadLock(path: string, owner: string, clock: Clock): Promise<void> {
  const found = await unlessAbsent(stat(path));
  if (found === undefined || clock.now() - found.mtimeMs < DEAD_LOCK_MS) return;
  const aside = `${path}.${owner}`;
  await unlessAbsent(rename(path, aside));
  await rm(aside, { force: true });
}
