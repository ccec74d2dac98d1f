import { lstat, readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Clock } from "../../clock.ts";
import { errorText } from "../../errors.ts";
import type { Log } from "../../log.ts";
import type { EngineStats, StoredMessage } from "../../mailbox/engine.ts";
import { systemRandom } from "../../random.ts";
import { isObject } from "../board_store.ts";
import {
  type FileName,
  fitsInName,
  formatName,
  orderOf,
  parseName,
  SCRIPT_ID_BYTES,
  scriptFile,
  sentAt,
  stateOf,
  toVisible,
} from "./_file_names.ts";
import {
  codeOf,
  jsonEntries,
  makeFolders,
  mapFiles,
  moveFile,
  removeFile,
  unlessAbsent,
  writeWhole,
} from "./_files.ts";

/** A script may still be writing a file that is younger than this. */
const FINISHED_MS = 100;

const NOT_REGULAR = "only regular files are messages";

/** The values that a message has beside its body, stored in the `more` folder. */
export interface Extras {
  /** The encoded envelope. */
  readonly meta?: string;
  /** The encoded checkpoint. */
  readonly checkpoint?: string;
  /** The reply address, as version 0.1 stored it. Since then it is part of `meta`. */
  readonly replyTo?: string;
}

/** The visible messages, and the time until another may become visible. */
export interface VisibleFiles {
  readonly files: FileName[];
  readonly nextDueMs: number;
}

/**
 * The files of a mailbox: `inbox` has the visible messages, `hidden` those in flight and delayed, `more` the
 * extras of some. Every change of a message is one rename, so that after a crash it is in exactly one
 * place.
 *
 * Only regular files are messages. Other entries are moved to `aside`, unopened, and logged.
 */
export class MessageFolder {
  readonly #folder: string;
  readonly #clock: Clock;
  readonly #log: Log;
  /** Entries that could not be moved. They are logged once, and ignored. */
  readonly #stuck = new Set<string>();

  constructor(folder: string, clock: Clock, log: Log) {
    this.#folder = folder;
    this.#clock = clock;
    this.#log = log;
  }

  async open(): Promise<void> {
    await makeFolders(this.#at("inbox"), this.#at("hidden"), this.#at("more"));
  }

  /** Writes a new message. */
  async write(file: FileName, body: string, extras: Extras): Promise<void> {
    if (file.hasExtras) await this.saveExtras(file, extras);
    await writeWhole(this.#path(file), body);
  }

  /** Changes the state of a message. Returns false when the file does not exist any more. */
  async change(from: FileName, to: FileName): Promise<boolean> {
    return await moveFile(this.#path(from), this.#path(to));
  }

  /** Returns a message, or undefined when it is gone. */
  async read(file: FileName): Promise<StoredMessage<string> | undefined> {
    const body = await unlessAbsent(readFile(this.#path(file), "utf8"));
    if (body === undefined) return undefined;
    const { replyTo, ...extras } = await this.extras(file);
    // Version 0.1 stored the reply address beside the checkpoint.
    const meta = replyTo === undefined ? {} : { meta: JSON.stringify({ replyTo }) };
    const { id, deliveries, order } = file;
    return { id, body, ...meta, ...extras, deliveryCount: deliveries, enqueuedAt: sentAt(order) };
  }

  /** Removes a message. Returns false when it is gone. */
  async remove(file: FileName): Promise<boolean> {
    const removed = await removeFile(this.#path(file));
    if (removed && file.hasExtras) await removeFile(this.#extrasPath(file));
    return removed;
  }

  /** Returns the extras of a message. An unreadable file is moved aside, and the result is empty. */
  async extras(file: FileName): Promise<Extras> {
    if (!file.hasExtras) return {};
    const path = this.#extrasPath(file);
    const found = await unlessAbsent(lstat(path));
    if (found === undefined) return {};
    if (!found.isFile()) {
      await this.#moveAside(path, NOT_REGULAR);
      return {};
    }
    const extras = parseExtras(await unlessAbsent(readFile(path, "utf8")) ?? "{}");
    if (extras !== undefined) return extras;
    await this.#moveAside(path, `unreadable: message ${file.id} loses its headers and checkpoint`);
    return {};
  }

  async saveExtras(file: FileName, extras: Extras): Promise<void> {
    await writeWhole(this.#extrasPath(file), JSON.stringify(extras));
  }

  /** Returns the visible messages, the oldest first. Makes hidden ones visible that are due. */
  async listVisible(): Promise<VisibleFiles> {
    const now = this.#clock.now();
    let nextDueMs = Infinity;
    for (const file of await this.#list("hidden")) {
      const { until = 0 } = file;
      if (until <= now) await this.change(file, toVisible(file));
      else nextDueMs = Math.min(nextDueMs, until - now);
    }
    const files: FileName[] = [];
    for (const { name, isFile } of await jsonEntries(this.#at("inbox"))) {
      if (!isFile) {
        await this.#moveAside(join(this.#at("inbox"), name), NOT_REGULAR);
        continue;
      }
      const file = parseName(name) ?? await this.#adopt(name);
      if (file !== undefined) files.push(file);
      else nextDueMs = Math.min(nextDueMs, FINISHED_MS);
    }
    return { files: files.sort(byOrder), nextDueMs };
  }

  /**
   * Returns all messages, the oldest first. A file may move while the folders are read one after another,
   * so `hidden` is read twice.
   */
  async listAll(): Promise<FileName[]> {
    const found = new Map<string, FileName>();
    for (const part of ["hidden", "inbox", "hidden"] as const) {
      for (const file of await this.#list(part)) found.set(`${file.order}~${file.id}`, file);
    }
    return [...found.values()].sort(byOrder);
  }

  /** Counts the messages by state. */
  async stats(): Promise<EngineStats> {
    const counts = { waiting: 0, delayed: 0, inFlight: 0 };
    const files = await this.listAll();
    const now = this.#clock.now();
    let oldestAt = Infinity;
    for (const file of files) {
      const state = stateOf(file, now);
      counts[state]++;
      // The file of a script gets its position, which has the time, when it is received.
      if (state === "waiting") oldestAt = Math.min(oldestAt, sentAt(file.order) || Infinity);
    }
    if (oldestAt === Infinity) return counts;
    return { ...counts, oldestWaitingMs: Math.max(0, now - oldestAt) };
  }

  /** Removes all messages and returns their number. */
  async clear(): Promise<number> {
    const removed = await mapFiles(await this.listAll(), (file) => this.remove(file));
    return removed.filter(Boolean).length;
  }

  /** Moves the file of an unreadable message aside. */
  async moveAside(file: FileName, error: unknown): Promise<void> {
    await this.#moveAside(this.#path(file), errorText(error));
  }

  async #moveAside(path: string, why: string): Promise<void> {
    if (this.#stuck.has(path)) return;
    const name = `${systemRandom.id().slice(0, 8)}-${basename(path).slice(0, 60)}`;
    const to = join(this.#at("aside"), name);
    try {
      await makeFolders(this.#at("aside"));
      if (await moveFile(path, to)) this.#log.warn("mailbox entry moved aside", { path, to, why });
    } catch (error) {
      this.#stuck.add(path);
      const fields = { path, why, error: errorText(error) };
      this.#log.warn("mailbox entry ignored: it cannot be moved aside; remove it", fields);
    }
  }

  async #list(part: "inbox" | "hidden"): Promise<FileName[]> {
    const files = (await jsonEntries(this.#at(part))).filter(({ isFile }) => isFile);
    return files.map(({ name }) => parseName(name) ?? scriptFile(name));
  }

  /** Gives the file of a script a position in the queue. Returns undefined while it may be unfinished. */
  async #adopt(name: string): Promise<FileName | undefined> {
    const path = join(this.#at("inbox"), name);
    const found = await unlessAbsent(lstat(path));
    if (found === undefined || this.#clock.now() - found.mtimeMs < FINISHED_MS) return undefined;
    const script = scriptFile(name);
    const id = fitsInName(script.id, SCRIPT_ID_BYTES) ? script.id : systemRandom.id();
    const suffix = name.replace(/\W/g, "_").slice(0, 60); // orders the files of one millisecond
    const file = { ...script, id, order: orderOf(found.mtimeMs, 0, suffix) };
    return await moveFile(path, this.#path(file)) ? file : undefined;
  }

  #at(part: string): string {
    return join(this.#folder, part);
  }

  #path(file: FileName): string {
    return join(this.#at(file.until === undefined ? "inbox" : "hidden"), formatName(file));
  }

  #extrasPath({ order }: FileName): string {
    return join(this.#at("more"), `${order}.json`);
  }
}

/** Returns true when the entry is the reason, not the system: reading it again does not help. */
export function isUnreadable(error: unknown): boolean {
  return ["EISDIR", "ELOOP", "EACCES", "EPERM"].includes(codeOf(error));
}

/** Returns undefined for a text that is not the extras of a message. */
export function parseExtras(text: string): Extras | undefined {
  try {
    const extras: unknown = JSON.parse(text);
    if (!isObject(extras)) return undefined;
    const values = [extras.meta, extras.checkpoint, extras.replyTo];
    const isValid = values.every((it) => it === undefined || typeof it === "string");
    return isValid ? extras : undefined;
  } catch {
    return undefined; // not JSON
  }
}

function byOrder(a: FileName, b: FileName): number {
  return a.order < b.order ? -1 : 1;
}
