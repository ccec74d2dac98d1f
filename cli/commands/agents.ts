import { type Command, Option } from "commander";
import { oneLine } from "../../src/terminal/text.ts";
import type { AgentRecord, Board } from "../../src/coordination/mod.ts";
import { type BoardFlags, checkAgentIds, openBoard } from "../_board.ts";
import { ageText, parseDuration } from "../_duration.ts";
import { CliError, usageError } from "../_errors.ts";
import { examples } from "../_help.ts";
import { interruption } from "../_interruption.ts";
import type { Io } from "../_io.ts";
import { live } from "../_live.ts";
import { counted, paint, printer, type Row, table } from "../_print.ts";
import { pause } from "../_watch.ts";

interface Flags extends BoardFlags {
  readonly watch?: boolean;
}

const BOARDS = `
Boards:
  ./agents, dir:./agents          a directory
  redis://localhost:6379          Redis; --name says which of its boards
  postgres://localhost/app        PostgreSQL; --name and --schema say which

  A board that is not there is not made. It can be left out when LASTCALL_BOARD names it.

Status:
  running, shutting_down, shutdown_complete   as the agent said last
  stale      it has not been heard of for too long, and never said goodbye
  corrupt    there is a record that cannot be read
  unknown    there is no record`;

const COLUMNS: Row = ["AGENT", "STATUS", "SINCE", "DETAIL"];
const NOBODY = "no agents";
/** Ages grow while nothing else happens. */
const REDRAW_MS = 1_000;

/** `lastcall agents`: who is on a board. */
export function addAgents(program: Command, io: Io): void {
  program.command("agents")
    .description("List the agents of a board, with their state, its age and what they announced.")
    .argument("[board]", "where the board is (or LASTCALL_BOARD)")
    .argument("[agents...]", "only these; exit code 1 when one of them is unknown")
    .option("--name <name>", "which board of the server (default: default)")
    .option("--schema <name>", "the schema that holds it, on PostgreSQL (default: lastcall)")
    .addOption(
      new Option("--stale-after <time>", "silence for longer is death (default: 30s)")
        .argParser(parseDuration),
    )
    .option("-w, --watch", "go on with every change, until Ctrl+C; piped: one line a change")
    .addHelpText("after", BOARDS)
    .addHelpText(
      "after",
      examples(
        ["lastcall agents ./agents", "all of a directory"],
        ["lastcall agents redis://localhost --watch", "as they come and go"],
        ["lastcall agents ./agents worker-1 --json", "one of them, for programs"],
      ),
    )
    .action(
      async (given: string | undefined, ids: readonly string[], flags: Flags, command: Command) => {
        const address = given ?? io.env["LASTCALL_BOARD"];
        if (!address) throw usageError("No board: name one, as ./agents, or set LASTCALL_BOARD");
        if (flags.watch && ids.length > 0) throw usageError("--watch shows all agents: name none");
        checkAgentIds(ids);
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
  printer(io, command).list(agents, COLUMNS, row, NOBODY);
  const unknown = agents.filter(({ status }) => status === "unknown").map((it) => it.agentId);
  if (unknown.length === 0) return;
  throw new CliError("not_found", `Not on the board: ${unknown.join(", ")}`);
}

async function watchBoard(io: Io, board: Board, json: boolean): Promise<void> {
  const interrupted = interruption(io);
  const screen = io.out.interactive && !json ? live(io.out) : undefined;
  const known = new Map<string, AgentRecord>();
  const draw = () => screen?.show(lines(io, [...known.values()]));
  const stop = board.watch((changes) => {
    for (const record of changes) {
      if (record.status === "unknown") known.delete(record.agentId);
      else known.set(record.agentId, record);
      if (screen === undefined) io.out.write(`${json ? JSON.stringify(record) : change(record)}\n`);
    }
    draw();
  });
  try {
    while (!interrupted.signal.aborted) {
      await pause(REDRAW_MS, interrupted.signal);
      draw();
    }
  } finally {
    stop();
    interrupted.end();
    screen?.leave();
  }
}

function lines(io: Io, records: readonly AgentRecord[]): readonly string[] {
  if (records.length === 0) return [NOBODY];
  const sorted = [...records].sort((a, b) => a.agentId < b.agentId ? -1 : 1);
  return table(COLUMNS, sorted.map(row), io.out, paint(io, io.out)).trimEnd().split("\n");
}

function change(record: AgentRecord): string {
  const [agentId = "", status = "", , detail = ""] = row(record).map(oneLine);
  return `${new Date().toISOString()} ${agentId} ${status} ${detail}`.trimEnd();
}

function row(record: AgentRecord): Row {
  const { agentId, status, state, updatedAt } = record;
  return [
    agentId,
    status === "stale" ? `stale, was ${state}` : status,
    updatedAt === undefined ? "" : ageText(Date.now() - updatedAt),
    detail(record),
  ];
}

function detail({ notice, raw, metadata = {} }: AgentRecord): string {
  if (raw !== undefined) return `cannot be read: ${raw.trim() || "it is empty"}`;
  if (notice !== undefined) {
    return `stops ${counted(notice.agents.length, "agent")}: ${notice.reason}`;
  }
  return Object.keys(metadata).length === 0 ? "" : JSON.stringify(metadata);
}
