import { lstat, readFile, utimes } from "node:fs/promises";
import { join } from "node:path";
import { type Clock, systemClock } from "../../clock.ts";
import { safeLog } from "../../library_log.ts";
import type { Log } from "../../log.ts";
import { Board, type BoardOptions } from "../board.ts";
import {
  type BoardEntry,
  type BoardPage,
  type BoardStore,
  contentOf,
  isObject,
  type StoredMember,
} from "../board_store.ts";
import type { MemberContent, MemberStatus } from "../member_state.ts";
import {
  isJsonFile,
  jsonEntries,
  makeFolders,
  mapFiles,
  removeFile,
  underLock,
  unlessAbsent,
  watchFolder,
  writeWhole,
} from "./_files.ts";

/**
 * Opens a board in a directory, for the processes of one machine. Shell scripts can read and write its
 * files: `<agent_id>.json` with `agent_id`, `state`, `timestamp` and `metadata`.
 *
 * @example
 * ```ts
 * import { mkdtemp, readFile, rm } from "node:fs/promises";
 * import { tmpdir } from "node:os";
 * import { join } from "node:path";
 * import { openDirectoryBoard } from "@lastcall/lastcall/coordination";
 *
 * const folder = await mkdtemp(join(tmpdir(), "board-"));
 * const board = await openDirectoryBoard(folder);
 * await board.setState("worker-1", "running");
 * const file = await readFile(join(folder, "worker-1.json"), "utf8");
 * console.assert(JSON.parse(file).state === "running");
 * await board.close();
 * await rm(folder, { recursive: true });
 * ```
 */
export async function openDirectoryBoard(
  folder: string,
  options: BoardOptions = {},
): Promise<Board> {
  const store = new DirectoryStore(folder, options);
  const board = new Board({ ...options, store });
  await makeFolders(folder);
  return board;
}

/** Inode, time and size of each file when it was read. */
type Marks = ReadonlyMap<string, string>;

/**
 * Stores a board in a directory, one file for each member:
 * `{ "agent_id": …, "state": …, "timestamp": seconds, "metadata": {…} }`. Files are replaced as a whole,
 * under a lock, so that a reader never sees half of one. The modification time of the file is when the
 * member was last alive.
 */
export class DirectoryStore implements BoardStore {
  readonly #folder: string;
  readonly #clock: Clock;
  readonly #log: Log;

  constructor(folder: string, options: { readonly clock?: Clock; readonly log?: Log } = {}) {
    if (typeof folder !== "string" || folder === "") {
      throw new TypeError("Invalid folder of a board: expected the path of a directory");
    }
    this.#folder = folder;
    this.#clock = options.clock ?? systemClock;
    this.#log = safeLog(options.log);
  }

  async write(entries: readonly BoardEntry[]): Promise<readonly MemberStatus[]> {
    return await mapFiles(entries, (entry) => {
      const lock = join(this.#folder, `${entry.agentId}.lock`);
      return underLock(lock, this.#clock, () => this.#write(entry));
    });
  }

  async touch(agentIds: readonly string[]): Promise<void> {
    const seconds = this.#clock.now() / 1_000;
    await mapFiles(agentIds, (id) => unlessAbsent(utimes(this.#path(id), seconds, seconds)));
  }

  async remove(agentIds: readonly string[]): Promise<void> {
    await mapFiles(agentIds, (id) => removeFile(this.#path(id)));
  }

  async read(agentIds: readonly string[]): Promise<readonly StoredMember[]> {
    return (await mapFiles(agentIds, (id) => this.#read(id))).filter((it) => it !== undefined);
  }

  async list(since: unknown = new Map()): Promise<BoardPage> {
    const known = since as Marks;
    const marks = new Map<string, string>();
    const ids = (await jsonEntries(this.#folder)).map(({ name }) => idOf(name));
    const found = await mapFiles(ids, async (id) => {
      const file = await unlessAbsent(lstat(this.#path(id)));
      if (file === undefined) return undefined;
      const mark = `${file.ino} ${file.mtimeMs} ${file.size}`;
      marks.set(id, mark);
      return known.get(id) === mark ? undefined : await this.#read(id);
    });
    return { members: found.filter((it) => it !== undefined), cursor: marks };
  }

  onWake(listener: (agentIds?: readonly string[]) => void): () => void {
    return watchFolder(this.#folder, (name) => {
      if (name === undefined) listener();
      else if (isJsonFile(name)) listener([idOf(name)]);
    }, this.#log);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  #path(agentId: string): string {
    return join(this.#folder, `${agentId}.json`);
  }

  async #write({ agentId, state, metadata, notice, from }: BoardEntry): Promise<MemberStatus> {
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

  async #read(agentId: string): Promise<StoredMember | undefined> {
    const path = this.#path(agentId);
    const file = await unlessAbsent(lstat(path));
    if (file === undefined) return undefined;
    const ageMs = this.#clock.now() - file.mtimeMs;
    // Opening a pipe would wait for its writer, and a link may point anywhere.
    if (!file.isFile()) return { agentId, raw: "not a regular file", ageMs };
    const raw = await unlessAbsent(readFile(path, "utf8"));
    if (raw === undefined) return undefined;
    const content = parse(agentId, raw);
    return { agentId, content, raw: content === undefined ? raw : undefined, ageMs };
  }
}

function idOf(name: string): string {
  return name.slice(0, -".json".length);
}

function parse(agentId: string, raw: string): MemberContent | undefined {
  try {
    const record: unknown = JSON.parse(raw);
    if (!isObject(record) || record.agent_id !== agentId) return undefined;
    return contentOf(record.state, Number(record.timestamp) * 1_000, record);
  } catch {
    return undefined; // the board reports it as corrupt, with the stored text
  }
}
