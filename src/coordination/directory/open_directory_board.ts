import { Board, type BoardOptions } from "../board.ts";
import { DirectoryStore } from "./directory_store.ts";

/**
 * Opens a board in a directory, for the processes of one machine. The files are those of shell scripts
 * that coordinate in the same way: `<agent>.json` with `agent_id`, `state`, `timestamp` and `metadata`.
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
  const board = new Board(options, store);
  await store.open();
  return board;
}
