// Boards as commands open them: by address, only to look, and only where there is one.

import { statSync } from "node:fs";
import { silentLog } from "../mod.ts";
import {
  type Board,
  type BoardOptions,
  openDirectoryBoard,
  openPostgresBoard,
  openRedisBoard,
} from "../src/coordination/mod.ts";
import { checkAgentId } from "../src/coordination/agent_state.ts";
import { CliError, explain, textOf, usageError } from "./_errors.ts";

/** Which board of a server is meant, and when an agent counts as dead. */
export interface BoardFlags {
  readonly name?: string;
  readonly schema?: string;
  readonly staleAfter?: number;
}

/** Who was forgotten or has died is told by nobody, and a person who watches should not wait long. */
const POLL_MS = 1_000;

/** Opens the board at an address: `dir:./agents` or a path, `redis://…`, `postgres://…`. */
export async function openBoard(address: string, flags: BoardFlags): Promise<Board> {
  const { name, schema, staleAfter } = flags;
  const options: BoardOptions = {
    log: silentLog,
    pollIntervalMs: POLL_MS,
    ...(staleAfter === undefined ? {} : { staleAfterMs: staleAfter }),
  };
  const [scheme = ""] = /^[a-z][a-z0-9+.-]*:/i.exec(address) ?? [];
  const which = name === undefined ? {} : { name };
  try {
    switch (scheme.toLowerCase()) {
      case "redis:":
      case "rediss:":
      case "redis+cluster:":
      case "rediss+cluster:":
        refuse("--schema", schema, "a board on Redis has none");
        return await openRedisBoard(address, { ...options, ...which });
      case "postgres:":
      case "postgresql:":
        return await openPostgresBoard(address, {
          ...{ ...options, ...which, migrate: false },
          ...(schema === undefined ? {} : { schema }),
        });
      case "dir:":
      case "":
        refuse("--name", name, "a directory is one board");
        refuse("--schema", schema, "a directory has none");
        return await openDirectoryBoard(folderOf(address), options);
      default:
        throw usageError(
          `Unknown scheme ${scheme} of a board: expected dir:./agents, redis://… or postgres://…`,
        );
    }
  } catch (error) {
    throw explainBoard(error, schema ?? "lastcall");
  }
}

function refuse(flag: string, value: string | undefined, why: string): void {
  if (value !== undefined) throw usageError(`${flag} has no effect here: ${why}`);
}

/** The path of a directory that is there: to look must not make one. */
function folderOf(address: string): string {
  const path = address.replace(/^dir:/i, "").replace(/^\/\/(?=\/)/, "");
  if (path === "") throw usageError("No directory: write dir:./agents, or its path");
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) {
    throw new CliError("not_found", `There is no directory ${path}: no agent has been there yet`);
  }
  if (!found.isDirectory()) throw usageError(`${path} is no directory, so it is no board`);
  return path;
}

/** Refuses what cannot be an agent. */
export function checkAgentIds(ids: readonly string[]): void {
  try {
    ids.forEach(checkAgentId);
  } catch (error) {
    throw usageError(textOf(error), { cause: error });
  }
}

/** What the package says to programs, said to people. */
function explainBoard(error: unknown, schema: string): CliError {
  // Names and times that are refused before anything is connected.
  if (error instanceof TypeError || error instanceof RangeError) {
    return usageError(textOf(error), { cause: error });
  }
  const [, version] = /version (\d+) and this package needs/.exec(textOf(error)) ?? [];
  if (version === undefined) return explain(error);
  return version === "0"
    ? new CliError(
      "not_found",
      `There is no board in the schema "${schema}": no agent has been there`,
    )
    : new CliError(
      "failed",
      `The board in the schema "${schema}" is of an older version: start an agent once`,
    );
}
