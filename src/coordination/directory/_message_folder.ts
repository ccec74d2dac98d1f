import { lstat, readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Clock } from "../../clock.ts";
import { errorText } from "../../errors.ts";
import type { Log } from "../../log.ts";
import { isObject } from "../_content.ts";
import {
  type FileName,
  fitsInName,
  hiddenName,
  orderOf,
  parseName,
  SCRIPT_ID_BYTES,
  visibleName,
} from "./_file_names.ts";
import {
  codeOf,
  each,
  jsonEntries,
  makeFolders,
  moved,
  removed,
  unlessAbsent,
  writeWhole,
} from "./_files.ts";

/** A script may still be writing a file that is younger than this. */
const SETTLED_MS = 100;

/** What there is to know of a message beside its body and its name. */
export interface More {
  readonly replyTo?: string;
  readonly checkpoint?: string;
}

/** What can be had now, and when there may be more. */
export interface Line {
  readonly files: FileName[];
  readonly nextDueMs: number;
}

/**
 * The files of a mailbox: `inbox` has what can be had, `hidden` what is taken or put off, `more` what is
 * known of some beside. Every change of a message is one rename, so that a crash at any time leaves it
 * in one place.
 *
 * Only regular files are messages. Any other entry is moved to `aside`, unopened, and named in the log.
 */
export class MessageFolder {
  readonly #folder: string;
  readonly #clock: Clock;
  readonly #log: Log;
  /** Entries that could not be moved: they are named once, and passed over. */
  readonly #stuck = new Set<string>();

  constructor(folder: string, clock: Clock, log: Log) {
    this.#folder = folder;
    this.#clock = clock;
    this.#log = log;
  }

  get inbox(): string {
    return join(this.#folder, "inbox");
  }

  async open(): Promise<void> {
    await makeFolders(this.inbox, this.#at("hidden"), this.#at("more"));
  }

  /** Where the file of a message is. */
  path(file: FileName): string {
    const { until, receipt } = file;
    return until === undefined
      ? join(this.inbox, visibleName(file))
      : join(this.#at("hidden"), hiddenName(file, until, receipt ?? ""));
  }

  /** Writes a new message. */
  async write(file: FileName, body: string, more: More): Promise<void> {
    if (file.more) await this.saveMore(file, more);
    await writeWhole(this.path(file), body);
  }

  /** Turns one into the other. False when it is not there any more. */
  async change(from: FileName, to: FileName): Promise<boolean> {
    return await moved(this.path(from), this.path(to));
  }

  /** The body, unless it is gone. */
  async body(file: FileName): Promise<string | undefined> {
    return await unlessAbsent(readFile(this.path(file), "utf8"));
  }

  /** Removes a message. False when it was gone. */
  async remove(file: FileName): Promise<boolean> {
    const was = await removed(this.path(file));
    if (was && file.more) await removed(this.#morePath(file));
    return was;
  }

  /** What is known of a message beside; nothing where that cannot be read, which is set aside. */
  async more(file: FileName): Promise<More> {
    if (!file.more) return {};
    const path = this.#morePath(file);
    const found = await unlessAbsent(lstat(path));
    if (found === undefined) return {};
    if (!found.isFile()) {
      await this.#setAside(path, NOT_REGULAR);
      return {};
    }
    const text = await unlessAbsent(readFile(path, "utf8")) ?? "{}";
    const more = parseMore(text);
    if (more === undefined) await this.#setAside(path, `message ${file.id} has lost its progress`);
    return more ?? {};
  }

  async saveMore(file: FileName, more: More): Promise<void> {
    await writeWhole(this.#morePath(file), JSON.stringify(more));
  }

  /** What can be had, the oldest first, after those have come back whose time is over. */
  async line(): Promise<Line> {
    const now = this.#clock.now();
    let nextDueMs = Infinity;
    for (const file of await this.#list("hidden")) {
      const { until = 0 } = file;
      if (until <= now) await this.change(file, visible(file));
      else nextDueMs = Math.min(nextDueMs, until - now);
    }
    const files: FileName[] = [];
    for (const { name, isFile } of await jsonEntries(this.inbox)) {
      if (!isFile) {
        await this.#setAside(join(this.inbox, name), NOT_REGULAR);
        continue;
      }
      const file = parseName(name) ?? await this.#adopt(name);
      if (file !== undefined) files.push(file);
      else nextDueMs = Math.min(nextDueMs, SETTLED_MS);
    }
    return { files: files.sort(byOrder), nextDueMs };
  }

  /** Moves the file of a message aside that cannot be read. */
  async setAside(file: FileName, error: unknown): Promise<void> {
    await this.#setAside(this.path(file), errorText(error));
  }

  /**
   * All messages, the oldest first. A file may be moved while folders are read one after another: what
   * is hidden is read again, so that it is missed in neither.
   */
  async all(): Promise<FileName[]> {
    const found = new Map<string, FileName>();
    for (const part of ["hidden", "inbox", "hidden"] as const) {
      for (const file of await this.#list(part)) found.set(`${file.order}~${file.id}`, file);
    }
    return [...found.values()].sort(byOrder);
  }

  /** Removes all messages and tells how many. */
  async clear(): Promise<number> {
    const gone = await each(await this.all(), (file) => this.remove(file));
    return gone.filter(Boolean).length;
  }

  async #list(part: "inbox" | "hidden"): Promise<FileName[]> {
    const files = (await jsonEntries(this.#at(part))).filter(({ isFile }) => isFile);
    return files.map(({ name }) => parseName(name) ?? foreign(name));
  }

  /** Gives a file that a script has put there its place in the line. */
  async #adopt(name: string): Promise<FileName | undefined> {
    const path = join(this.inbox, name);
    const found = await unlessAbsent(lstat(path));
    if (found === undefined || this.#clock.now() - found.mtimeMs < SETTLED_MS) return undefined;
    const named = foreign(name);
    const id = fitsInName(named.id, SCRIPT_ID_BYTES) ? named.id : crypto.randomUUID();
    const file = { ...named, id, order: orderOf(found.mtimeMs, 0, orderSuffix(name)) };
    return await moved(path, this.path(file)) ? file : undefined;
  }

  async #setAside(path: string, why: string): Promise<void> {
    if (this.#stuck.has(path)) return;
    const name = `${crypto.randomUUID().slice(0, 8)}-${basename(path).slice(0, 60)}`;
    const to = join(this.#at("aside"), name);
    try {
      await makeFolders(this.#at("aside"));
      if (await moved(path, to)) this.#log.warn("entry of a mailbox set aside", { path, to, why });
    } catch (error) {
      this.#stuck.add(path);
      this.#log.warn("entry of a mailbox ignored: remove it", {
        path,
        why,
        error: errorText(error),
      });
    }
  }

  #at(part: string): string {
    return join(this.#folder, part);
  }

  #morePath({ order }: Pick<FileName, "order">): string {
    return join(this.#at("more"), `${order}.json`);
  }
}

const NOT_REGULAR = "only regular files are messages";

/** Whether an entry, and not the system, is why it cannot be read: reading it again will not help. */
export function isUnreadable(error: unknown): boolean {
  return ["EISDIR", "ELOOP", "EACCES", "EPERM"].includes(codeOf(error));
}

function parseMore(text: string): More | undefined {
  try {
    const more: unknown = JSON.parse(text);
    const isText = (it: unknown) => it === undefined || typeof it === "string";
    return isObject(more) && isText(more.replyTo) && isText(more.checkpoint) ? more : undefined;
  } catch {
    return undefined; // not JSON
  }
}

function byOrder(a: FileName, b: FileName): number {
  return a.order < b.order ? -1 : 1;
}

/** The same message when nothing hides it. */
export function visible(file: FileName): FileName {
  const { until: _until, receipt: _receipt, ...rest } = file;
  return rest;
}

/** A file that was not written here, as a message. */
function foreign(name: string): FileName {
  const id = name.slice(0, -".json".length);
  return { order: name, deliveries: 0, releases: 0, chosen: false, more: false, id };
}

/** Letters and digits of a name, so that files of the same moment keep their order. */
function orderSuffix(name: string): string {
  return name.replace(/\W/g, "_").slice(0, 60);
}
