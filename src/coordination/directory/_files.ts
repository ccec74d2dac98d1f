import { mkdir, readdir, rename, rm, unlink, utimes, watch, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { Log } from "../../log.ts";

/** Writes a file atomically: under another name first, then renamed. */
export async function writeWhole(path: string, text: string, atMs?: number): Promise<void> {
  const draft = join(dirname(path), `.${basename(path)}.${crypto.randomUUID()}.tmp`);
  try {
    await writeFile(draft, text);
    if (atMs !== undefined) await utimes(draft, atMs / 1_000, atMs / 1_000);
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}

/** Makes a file with this content. False when it is there already. */
export async function created(path: string, text: string): Promise<boolean> {
  try {
    await writeFile(path, text, { flag: "wx" });
    return true;
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    throw error;
  }
}

/** Renames a file. Returns false when another process has renamed or removed it. */
export async function moved(from: string, to: string): Promise<boolean> {
  return await unlessAbsent(rename(from, to).then(() => true)) ?? false;
}

/** Removes a file. False when it was not there. */
export async function removed(path: string): Promise<boolean> {
  return await unlessAbsent(unlink(path).then(() => true)) ?? false;
}

/** An entry of a folder with the name of a JSON file. */
export interface JsonEntry {
  readonly name: string;
  /** False for a folder, a link, a pipe and the like, which must not be opened. */
  readonly isFile: boolean;
}

/** The entries of a folder that have the name of a JSON file. */
export async function jsonEntries(folder: string): Promise<readonly JsonEntry[]> {
  const entries = await unlessAbsent(readdir(folder, { withFileTypes: true })) ?? [];
  return entries.filter(({ name }) => isJsonFile(name)).map((entry) => {
    return { name: entry.name, isFile: entry.isFile() };
  });
}

/** Whether a name is that of a JSON file; one that begins with a dot is not written to its end yet. */
export function isJsonFile(name: string): boolean {
  return name.endsWith(".json") && !name.startsWith(".");
}

/** Makes folders that are not there. */
export async function makeFolders(...folders: readonly string[]): Promise<void> {
  for (const folder of folders) await mkdir(folder, { recursive: true });
}

/** The value, or undefined when a file is not there. */
export async function unlessAbsent<T>(promise: Promise<T>): Promise<T | undefined> {
  try {
    return await promise;
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  }
}

/**
 * Calls `listener` with the name of each entry of a folder that changes, with undefined where the system
 * does not tell which. What it misses is found by a look in time.
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
      if (!ended.signal.aborted) log.debug(`cannot watch ${folder}`, { error });
    }
  };
  void listen();
  return () => ended.abort();
}

/** Does something for each, for a few of them at a time: there are only so many open files. */
export async function each<T, R>(all: readonly T[], act: (one: T) => Promise<R>): Promise<R[]> {
  const results: R[] = new Array(all.length);
  let next = 0;
  const work = async () => {
    for (let i = next++; i < all.length; i = next++) results[i] = await act(all[i]!);
  };
  await Promise.all(Array.from({ length: Math.min(16, all.length) }, work));
  return results;
}

/** The code of a system error. */
export function codeOf(error: unknown): string {
  return String((error as { readonly code?: unknown } | null)?.code ?? "");
}
