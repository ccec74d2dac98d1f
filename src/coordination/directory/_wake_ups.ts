import { utimes } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { Clock } from "../../clock.ts";
import { wakeUps } from "../../engines/_kit/wake_ups.ts";
import type { Log } from "../../log.ts";
import { isJsonFile, watchFolder } from "./_files.ts";

/** How often a waiting receive polls without a wake-up, in milliseconds. */
const POLL_MS = 1_000;

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

/** The wake-ups of one mailbox, in this process and between processes. */
export class MailboxWakeUps {
  readonly #folder: string;
  readonly #clock: Clock;
  readonly #log: Log;
  /** The listeners of this engine, which need no watch. */
  readonly #listeners = new Set<() => void>();

  constructor(folder: string, clock: Clock, log: Log) {
    this.#folder = folder;
    this.#clock = clock;
    this.#log = log;
  }

  /**
   * Wakes the waiting receives of this process, and those of others by setting the time of the folder.
   * Never rejects: the message is stored, and the next poll of a waiting process finds it.
   */
  async wake(): Promise<void> {
    for (const listener of [...this.#listeners]) listener();
    const seconds = this.#clock.now() / 1_000;
    try {
      await utimes(this.#folder, seconds, seconds);
    } catch (error) {
      this.#log.debug("wake-up failed; waiting processes poll", { folder: this.#folder, error });
    }
  }

  /**
   * Calls `listener` after a wake-up of this mailbox, when a file arrives in its `inbox` where that has a
   * watch, and about once a second. Returns the remover.
   */
  add(listener: () => void): () => void {
    return wakeUps((listener) => this.#listen(listener), this.#clock, POLL_MS, listener);
  }

  #listen(listener: () => void): () => void {
    const folder = this.#folder;
    this.#listeners.add(listener);
    const stopShared = listenShared(dirname(folder), basename(folder), listener, this.#log);
    const stopInbox = watchInbox(join(folder, "inbox"), listener, this.#log);
    return () => {
      this.#listeners.delete(listener);
      stopShared();
      stopInbox?.();
    };
  }
}

/** Watches an inbox by itself, unless the process watches enough of them. */
function watchInbox(inbox: string, listener: () => void, log: Log): (() => void) | undefined {
  if (inboxWatches >= MAX_INBOX_WATCHES) return undefined;
  inboxWatches++;
  const stop = watchFolder(inbox, (name) => {
    if (name === undefined || isJsonFile(name)) listener();
  }, log);
  return () => {
    stop();
    inboxWatches--;
  };
}

/** Listens to the watch of a base folder, which all its mailboxes share. */
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
