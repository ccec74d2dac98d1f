import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../../clock.ts";
import { type FileName, hiddenName, orderOf, parseName, visibleName } from "./_file_names.ts";
import {
  each,
  jsonFiles,
  makeFolders,
  moved,
  removed,
  unlessAbsent,
  writeWhole,
} from "./_files.ts";

/** A file of somebody else that is younger may not be written to its end yet. */
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
 */
export class MessageFolder {
  readonly #folder: string;
  readonly #clock: Clock;

  constructor(folder: string, clock: Clock) {
    this.#folder = folder;
    this.#clock = clock;
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

  async more({ order, more }: FileName): Promise<More> {
    const path = this.#morePath({ order });
    const text = more ? await unlessAbsent(readFile(path, "utf8")) : undefined;
    return text === undefined ? {} : JSON.parse(text);
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
    for (const name of await jsonFiles(this.inbox)) {
      const file = parseName(name) ?? await this.#adopt(name);
      if (file !== undefined) files.push(file);
      else nextDueMs = Math.min(nextDueMs, SETTLED_MS);
    }
    return { files: files.sort(byOrder), nextDueMs };
  }

  /**
   * All messages, the oldest first. A file may be moved while folders are read one after another: what
   * is hidden is read again, so that it is missed in neither.
   */
  async all(): Promise<FileName[]> {
    const found = new Map<string, FileName>();
    for (const part of ["hidden", "inbox", "hidden"] as const) {
      for (const file of await this.#list(part)) found.set(file.order, file);
    }
    return [...found.values()].sort(byOrder);
  }

  /** Removes all messages and tells how many. */
  async clear(): Promise<number> {
    const gone = await each(await this.all(), (file) => this.remove(file));
    return gone.filter(Boolean).length;
  }

  async #list(part: "inbox" | "hidden"): Promise<FileName[]> {
    const names = await jsonFiles(this.#at(part));
    return names.map((name) => parseName(name) ?? foreign(name));
  }

  /** Gives a file that a script has put there its place in the line. */
  async #adopt(name: string): Promise<FileName | undefined> {
    const path = join(this.inbox, name);
    const found = await unlessAbsent(stat(path));
    if (found === undefined || this.#clock.now() - found.mtimeMs < SETTLED_MS) return undefined;
    const file = { ...foreign(name), order: orderOf(found.mtimeMs, 0, orderSuffix(name)) };
    return await moved(path, this.path(file)) ? file : undefined;
  }

  #at(part: string): string {
    return join(this.#folder, part);
  }

  #morePath({ order }: Pick<FileName, "order">): string {
    return join(this.#at("more"), `${order}.json`);
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
