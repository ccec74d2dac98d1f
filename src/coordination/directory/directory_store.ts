import { lstat, readFile, utimes } from "node:fs/promises";
import { join } from "node:path";
import { type Clock, systemClock } from "../../clock.ts";
import { safeLog } from "../../library_log.ts";
import type { Log } from "../../log.ts";
import type { AgentStatus } from "../agent_state.ts";
import type { BoardEntry, BoardPage, BoardStore, StoredAgent } from "../board_store.ts";
import { contentOf, isObject } from "../_content.ts";
import {
  each,
  isJsonFile,
  jsonEntries,
  makeFolders,
  removed,
  unlessAbsent,
  watchFolder,
  writeWhole,
} from "./_files.ts";
import { underLock } from "./_lock.ts";

/** What a file was like when it was read. */
type Marks = ReadonlyMap<string, string>;

/**
 * Keeps a board in a directory, one file for each agent:
 * `{ "agent_id": …, "state": …, "timestamp": seconds, "metadata": {…} }`. Files are replaced as a whole,
 * under a lock, so that a reader never sees half of one. The modification time of the file is when the
 * agent was last alive.
 */
export class DirectoryStore implements BoardStore {
  readonly folder: string;
  readonly #clock: Clock;
  readonly #log: Log;

  constructor(folder: string, options: { readonly clock?: Clock; readonly log?: Log } = {}) {
    if (typeof folder !== "string" || folder === "") {
      throw new TypeError("Invalid folder of a board: expected the path of a directory");
    }
    this.folder = folder;
    this.#clock = options.clock ?? systemClock;
    this.#log = safeLog(options.log);
  }

  /** Makes the directory where it is not there. */
  async open(): Promise<void> {
    await makeFolders(this.folder);
  }

  async put(entries: readonly BoardEntry[]): Promise<readonly AgentStatus[]> {
    return await each(entries, (entry) => {
      const lock = join(this.folder, `${entry.agentId}.lock`);
      return underLock(lock, this.#clock, () => this.#put(entry));
    });
  }

  async touch(agentIds: readonly string[]): Promise<void> {
    const seconds = this.#clock.now() / 1_000;
    await each(agentIds, (id) => unlessAbsent(utimes(this.#path(id), seconds, seconds)));
  }

  async remove(agentIds: readonly string[]): Promise<void> {
    await each(agentIds, (id) => removed(this.#path(id)));
  }

  async read(agentIds: readonly string[]): Promise<readonly StoredAgent[]> {
    return (await each(agentIds, (id) => this.#read(id))).filter((it) => it !== undefined);
  }

  async list(since: unknown = new Map()): Promise<BoardPage> {
    const known = since as Marks;
    const marks = new Map<string, string>();
    const ids = (await jsonEntries(this.folder)).map(({ name }) => agentOf(name));
    const found = await each(ids, async (id) => {
      const file = await unlessAbsent(lstat(this.#path(id)));
      if (file === undefined) return undefined;
      const mark = `${file.ino} ${file.mtimeMs} ${file.size}`;
      marks.set(id, mark);
      return known.get(id) === mark ? undefined : await this.#read(id);
    });
    return { agents: found.filter((it) => it !== undefined), cursor: marks };
  }

  onWake(listener: (agentIds?: readonly string[]) => void): () => void {
    return watchFolder(this.folder, (name) => {
      if (name === undefined) listener();
      else if (isJsonFile(name)) listener([agentOf(name)]);
    }, this.#log);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  #path(agentId: string): string {
    return join(this.folder, `${agentId}.json`);
  }

  async #put({ agentId, state, metadata, notice, from }: BoardEntry): Promise<AgentStatus> {
    const found = await this.#read(agentId);
    const before = found === undefined ? "unknown" : found.content?.state ?? "corrupt";
    if (!from.includes(before)) return before;
    const now = this.#clock.now();
    const record = {
      agent_id: agentId,
      state,
      timestamp: Math.floor(now / 1_000),
      metadata,
      ...(notice && { notice }),
    };
    await writeWhole(this.#path(agentId), `${JSON.stringify(record, null, 2)}\n`, now);
    return before;
  }

  async #read(agentId: string): Promise<StoredAgent | undefined> {
    const path = this.#path(agentId);
    const file = await unlessAbsent(lstat(path));
    if (file === undefined) return undefined;
    const ageMs = this.#clock.now() - file.mtimeMs;
    // To open a pipe is to wait for its writer, and a link may lead anywhere.
    if (!file.isFile()) return { agentId, raw: "not a regular file", ageMs };
    const raw = await unlessAbsent(readFile(path, "utf8"));
    if (raw === undefined) return undefined;
    const content = parse(agentId, raw);
    return { agentId, content, raw: content === undefined ? raw : undefined, ageMs };
  }
}

function agentOf(name: string): string {
  return name.slice(0, -".json".length);
}

function parse(agentId: string, raw: string): StoredAgent["content"] {
  try {
    const record: unknown = JSON.parse(raw);
    if (!isObject(record) || record.agent_id !== agentId) return undefined;
    return contentOf(record.state, Number(record.timestamp) * 1_000, record);
  } catch {
    return undefined; // the board reports it as corrupt, with the stored text
  }
}
