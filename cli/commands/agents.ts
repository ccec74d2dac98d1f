import { type Command, Option } from "commander";
import { statSync } from "node:fs";
import { silentLog } from "../../mod.ts";
import { checkAgentId } from "../../src/coordination/member_state.ts";
import {
  type Board,
  type BoardOptions,
  type MemberRecord,
  openDirectoryBoard,
  openPostgresBoard,
  openRedisBoard,
} from "../../src/coordination/mod.ts";
import { postgres } from "../../src/engines/postgres/registration.ts";
import { redis } from "../../src/engines/redis/registration.ts";
import { oneLine } from "../../src/terminal/text.ts";
import {
  asUsage,
  CliError,
  connectionReason,
  messageOf,
  toCliError,
  usageError,
} from "../_errors.ts";
import { interruption, type Io, sleep } from "../_io.ts";
import { live } from "../_live.ts";
import { examples, parseDuration } from "../_options.ts";
import { ageText, counted, paint, printer, type Row, table } from "../_print.ts";

/** The options of a board. */
interface BoardFlags {
  readonly name?: string;
  readonly schema?: string;
  readonly staleAfter?: number;
}

interface Flags extends BoardFlags {
  readonly watch?: boolean;
}

const BOARDS = `
Boards:
  ./agents, dir:./agents          a directory
  redis://localhost:6379          Redis; --name selects the board
  postgres://localhost/app        PostgreSQL; --name and --schema select the board

  The command never creates a board. If LASTCALL_BOARD is set, the board can be omitted.

Status:
  running, shutting_down, shutdown_complete   the state that the agent wrote last
  stale      the agent stopped updating its record without shutting down
  corrupt    the record cannot be read
  unknown    there is no record`;

const COLUMNS: Row = ["AGENT", "STATUS", "SINCE", "DETAIL"];
const NO_AGENTS = "no agents";
/** Keeps the ages up to date between changes. */
const REDRAW_MS = 1_000;

/** Adds `lastcall agents`, which lists the agents of a board. */
export function addAgents(program: Command, io: Io): void {
  program.command("agents")
    .description("List the agents of a board with their state, its age and their shutdown notices.")
    .argument("[board]", "address of the board (or LASTCALL_BOARD)")
    .argument("[agents...]", "only these agents; exit code 1 when one of them is unknown")
    .option("--name <name>", "name of the board on a server (default: default)")
    .option("--schema <name>", "schema of the board on PostgreSQL (default: lastcall)")
    .addOption(
      new Option(
        "--stale-after <time>",
        "age of the record after which an agent is stale (default: 30s)",
      )
        .argParser(parseDuration),
    )
    .option("-w, --watch", "show every change until Ctrl+C; in a pipe: one line a change")
    .addHelpText("after", BOARDS)
    .addHelpText(
      "after",
      examples(
        ["lastcall agents ./agents", "all agents of a directory"],
        ["lastcall agents redis://localhost --watch", "every change"],
        ["lastcall agents ./agents worker-1 --json", "one agent, as JSON"],
      ),
    )
    .action(
      async (given: string | undefined, ids: readonly string[], flags: Flags, command: Command) => {
        const address = given ?? io.env["LASTCALL_BOARD"];
        if (!address) {
          throw usageError("No board: give its address, as ./agents, or set LASTCALL_BOARD");
        }
        if (flags.watch && ids.length > 0) {
          throw usageError("--watch shows all agents: remove the agent ids");
        }
        asUsage(() => ids.forEach(checkAgentId));
        const board = await openBoard(address, flags);
        try {
          if (flags.watch) await watchBoard(io, board, printer(io, command).json);
          else await list(io, board, ids, command);
        } finally {
          await board.close();
        }
      },
    );
}

async function list(io: Io, board: Board, ids: readonly string[], command: Command): Promise<void> {
  const agents = ids.length === 0
    ? await board.list()
    : await Promise.all(ids.map((id) => board.getState(id)));
  printer(io, command).list(agents, COLUMNS, row, NO_AGENTS);
  const unknown = agents.filter(({ status }) => status === "unknown").map((it) => it.agentId);
  if (unknown.length === 0) return;
  throw new CliError("not_found", `Not on the board: ${unknown.join(", ")}`);
}

async function watchBoard(io: Io, board: Board, json: boolean): Promise<void> {
  const interrupted = interruption(io);
  const screen = io.out.interactive && !json ? live(io.out) : undefined;
  const known = new Map<string, MemberRecord>();
  const draw = () => screen?.show(lines(io, [...known.values()]));
  const stop = board.watch((changes) => {
    for (const record of changes) {
      if (record.status === "unknown") known.delete(record.agentId);
      else known.set(record.agentId, record);
      if (screen === undefined) {
        io.out.write(`${json ? JSON.stringify(record) : changeLine(record)}\n`);
      }
    }
    draw();
  });
  try {
    while (!interrupted.signal.aborted) {
      await sleep(REDRAW_MS, interrupted.signal);
      draw();
    }
  } finally {
    stop();
    interrupted.end();
    screen?.leave();
  }
}

function lines(io: Io, records: readonly MemberRecord[]): readonly string[] {
  if (records.length === 0) return [NO_AGENTS];
  const sorted = [...records].sort((a, b) => a.agentId < b.agentId ? -1 : 1);
  return table(COLUMNS, sorted.map(row), io.out, paint(io, io.out)).trimEnd().split("\n");
}

function changeLine(record: MemberRecord): string {
  const [agentId = "", status = "", , detail = ""] = row(record).map(oneLine);
  return `${new Date().toISOString()} ${agentId} ${status} ${detail}`.trimEnd();
}

function row(record: MemberRecord): Row {
  const { agentId, status, state, updatedAt } = record;
  return [
    agentId,
    status === "stale" ? `stale, was ${state}` : status,
    updatedAt === undefined ? "" : ageText(Date.now() - updatedAt),
    detail(record),
  ];
}

function detail({ notice, raw, metadata = {} }: MemberRecord): string {
  if (raw !== undefined) return `unreadable: ${raw.trim() || "empty"}`;
  if (notice !== undefined) {
    return `stops ${counted(notice.agents.length, "agent")}: ${notice.reason}`;
  }
  return Object.keys(metadata).length === 0 ? "" : JSON.stringify(metadata);
}

/** Boards announce changes, but not agents that were forgotten or have died: those need polling. */
const BOARD_POLL_MS = 1_000;

/** Opens the board at `dir:./agents`, a path, `redis://…` or `postgres://…`. */
async function openBoard(address: string, flags: BoardFlags): Promise<Board> {
  const { name, schema, staleAfter } = flags;
  const options: BoardOptions = {
    log: silentLog,
    pollIntervalMs: BOARD_POLL_MS,
    ...(staleAfter === undefined ? {} : { staleAfterMs: staleAfter }),
  };
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(address)?.[1]?.toLowerCase();
  const named = name === undefined ? {} : { name };
  try {
    if (scheme === undefined || scheme === "dir") {
      refuse("--name", name, "a directory holds one board");
      refuse("--schema", schema, "a directory has no schema");
      return await openDirectoryBoard(existingFolder(address), options);
    }
    if (redis.schemes.includes(scheme)) {
      refuse("--schema", schema, "a board on Redis has no schema");
      return await openRedisBoard(address, { ...options, ...named });
    }
    if (postgres.schemes.includes(scheme)) {
      return await openPostgresBoard(address, {
        ...{ ...options, ...named, migrate: false },
        ...(schema === undefined ? {} : { schema }),
      });
    }
    const known = ["dir", ...redis.schemes, ...postgres.schemes].join(", ");
    throw usageError(`Unknown scheme "${scheme}" of a board: expected a path or one of ${known}`);
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
