// Opens the board of `lastcall agents`, read-only and only where one exists.

import { statSync } from "node:fs";
import { silentLog } from "../mod.ts";
import {
  type Board,
  type BoardOptions,
  openDirectoryBoard,
  openPostgresBoard,
  openRedisBoard,
} from "../src/coordination/mod.ts";
import { CliError, connectionReason, messageOf, toCliError, usageError } from "./_errors.ts";

/** The options of a board. */
export interface BoardFlags {
  readonly name?: string;
  readonly schema?: string;
  readonly staleAfter?: number;
}

/** Boards announce changes, but not agents that were forgotten or have died: those need polling. */
const POLL_MS = 1_000;

/** Opens the board at `dir:./agents`, a path, `redis://…` or `postgres://…`. */
export async function openBoard(address: string, flags: BoardFlags): Promise<Board> {
  const { name, schema, staleAfter } = flags;
  const options: BoardOptions = {
    log: silentLog,
    pollIntervalMs: POLL_MS,
    ...(staleAfter === undefined ? {} : { staleAfterMs: staleAfter }),
  };
  const [scheme = ""] = /^[a-z][a-z0-9+.-]*:/i.exec(address) ?? [];
  const named = name === undefined ? {} : { name };
  try {
    switch (scheme.toLowerCase()) {
      case "redis:":
      case "rediss:":
      case "redis+cluster:":
      case "rediss+cluster:":
        refuse("--schema", schema, "a board on Redis has no schema");
        return await openRedisBoard(address, { ...options, ...named });
      case "postgres:":
      case "postgresql:":
        return await openPostgresBoard(address, {
          ...{ ...options, ...named, migrate: false },
          ...(schema === undefined ? {} : { schema }),
        });
      case "dir:":
      case "":
        refuse("--name", name, "a directory holds one board");
        refuse("--schema", schema, "a directory has no schema");
        return await openDirectoryBoard(existingFolder(address), options);
      default:
        throw usageError(
          `Unknown scheme ${scheme} of a board: expected dir:./agents, redis://… or postgres://…`,
        );
    }
  } catch (error) {
    throw boardError(error, schema ?? "lastcall");
  }
}

function refuse(flag: string, value: string | undefined, why: string): void {
  if (value !== undefined) throw usageError(`${flag} has no effect here: ${why}`);
}

/** Opening a directory board would create the directory, so it must exist already. */
function existingFolder(address: string): string {
  const path = address.replace(/^dir:/i, "").replace(/^\/\/(?=\/)/, "");
  if (path === "") throw usageError("No directory: write dir:./agents, or its path");
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) {
    throw new CliError("not_found", `No directory ${path}: no agent has used this board yet`);
  }
  if (!found.isDirectory()) throw usageError(`${path} is not a directory, so it is not a board`);
  return path;
}

function boardError(error: unknown, schema: string): CliError {
  // Boards refuse bad options with these before they connect.
  if (error instanceof TypeError || error instanceof RangeError) {
    return usageError(messageOf(error), { cause: error });
  }
  switch (connectionReason(error)) {
    case "schema_missing":
      return new CliError(
        "not_found",
        `No board in the schema "${schema}": no agent has used it yet`,
      );
    case "schema_outdated":
      return new CliError(
        "failed",
        `The board in the schema "${schema}" has an older version: start an agent to migrate it`,
      );
    default:
      return toCliError(error);
  }
}
