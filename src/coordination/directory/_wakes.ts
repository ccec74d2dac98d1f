import { utimes } from "node:fs/promises";
import { basename, dirname } from "node:path";
import type { Log } from "../../log.ts";
import { isJsonFile, watchFolder } from "./_files.ts";

/**
 * So many inboxes of a process are watched themselves, so that a file which a script puts there is noticed
 * at once. Each watch may cost something for every event of all of them, so that more would make the cost
 * of many mailboxes grow with the square of their number.
 */
const OWN_WATCHES = 4;

let ownWatches = 0;

type Listeners = Map<string, Set<() => void>>;

/** The folders that are watched for rings, with those who listen by the name of their mailbox. */
const bells = new Map<string, { readonly listeners: Listeners; readonly stop: () => void }>();

/**
 * Tells all processes that wait for messages of the mailbox in this folder to look. It never rejects: the
 * message is stored, and without the ring it is found by a look in time.
 */
export async function ring(folder: string, nowMs: number, log: Log): Promise<void> {
  try {
    await utimes(folder, nowMs / 1_000, nowMs / 1_000);
  } catch (error) {
    log.debug(`cannot set the time of ${folder}; others find the message up to a second later`, {
      error,
    });
  }
}

/**
 * Calls `listener` when there may be a message in the mailbox of this folder: after a {@linkcode ring},
 * which one watch hears for all mailboxes of a base folder, or when a file comes to its `inbox`, where that
 * is watched. A file that comes unheard is found by a look in time. Returns the remover.
 */
export function onRing(folder: string, inbox: string, listener: () => void, log: Log): () => void {
  const stopBell = hearBell(dirname(folder), basename(folder), listener, log);
  if (ownWatches >= OWN_WATCHES) return stopBell;
  ownWatches++;
  const stopOwn = watchFolder(inbox, (name) => {
    if (name === undefined || isJsonFile(name)) listener();
  }, log);
  return () => {
    stopBell();
    stopOwn();
    ownWatches--;
  };
}

function hearBell(base: string, name: string, listener: () => void, log: Log): () => void {
  const bell = bells.get(base) ?? openBell(base, log);
  const { listeners } = bell;
  const own = () => listener();
  listeners.set(name, (listeners.get(name) ?? new Set()).add(own));
  return () => {
    const left = listeners.get(name);
    if (left?.delete(own) !== true || left.size > 0) return;
    listeners.delete(name);
    if (listeners.size > 0) return;
    bell.stop();
    bells.delete(base);
  };
}

function openBell(base: string, log: Log) {
  const listeners: Listeners = new Map();
  const stop = watchFolder(base, (name) => {
    const rung = name === undefined ? [...listeners.values()] : [listeners.get(name) ?? []];
    for (const heard of rung.flatMap((it) => [...it])) heard();
  }, log);
  const bell = { listeners, stop };
  bells.set(base, bell);
  return bell;
}
