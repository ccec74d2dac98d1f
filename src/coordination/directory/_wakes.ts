import { utimes } from "node:fs/promises";
import { basename, dirname } from "node:path";
import type { Log } from "../../log.ts";
import { isJsonFile, watchFolder } from "./_files.ts";

/**
 * How many inboxes of a process have a watch of their own, so that a file from a script is noticed at once.
 * On Deno each watch costs time for every event of all watches, so the number is small.
 */
const MAX_INBOX_WATCHES = 4;

let inboxWatches = 0;

/** The listeners of a base folder, by the name of their mailbox, and the watch that they share. */
interface SharedWatch {
  readonly listeners: Map<string, Set<() => void>>;
  readonly stop: () => void;
}

const sharedWatches = new Map<string, SharedWatch>();

/**
 * Wakes all processes that wait for messages of the mailbox in this folder, by setting its time. Never
 * rejects: the message is stored, and the next poll of a waiting process finds it.
 */
export async function wake(folder: string, nowMs: number, log: Log): Promise<void> {
  try {
    await utimes(folder, nowMs / 1_000, nowMs / 1_000);
  } catch (error) {
    log.debug(
      `cannot set the time of ${folder}; waiting processes find the message by their poll`,
      {
        error,
      },
    );
  }
}

/**
 * Calls `listener` after a {@linkcode wake} of this mailbox folder, and when a file arrives in its `inbox`
 * where that has a watch. All mailboxes of a base folder share one watch. Returns the remover.
 */
export function onWake(folder: string, inbox: string, listener: () => void, log: Log): () => void {
  const stopShared = listenShared(dirname(folder), basename(folder), listener, log);
  if (inboxWatches >= MAX_INBOX_WATCHES) return stopShared;
  inboxWatches++;
  const stopInbox = watchFolder(inbox, (name) => {
    if (name === undefined || isJsonFile(name)) listener();
  }, log);
  return () => {
    stopShared();
    stopInbox();
    inboxWatches--;
  };
}

function listenShared(base: string, name: string, listener: () => void, log: Log): () => void {
  const shared = sharedWatches.get(base) ?? startShared(base, log);
  const { listeners } = shared;
  const own = () => listener();
  listeners.set(name, (listeners.get(name) ?? new Set()).add(own));
  return () => {
    const left = listeners.get(name);
    if (left?.delete(own) !== true || left.size > 0) return;
    listeners.delete(name);
    if (listeners.size > 0) return;
    shared.stop();
    sharedWatches.delete(base);
  };
}

function startShared(base: string, log: Log): SharedWatch {
  const listeners: SharedWatch["listeners"] = new Map();
  const stop = watchFolder(base, (name) => {
    const woken = name === undefined ? [...listeners.values()] : [listeners.get(name) ?? []];
    for (const listener of woken.flatMap((it) => [...it])) listener();
  }, log);
  const shared = { listeners, stop };
  sharedWatches.set(base, shared);
  return shared;
}
