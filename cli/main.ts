import { Command, CommanderError } from "commander";
import { systemClock } from "../mod.ts";
import manifest from "../deno.json" with { type: "json" };
import { EXIT_CODES } from "../src/lifecycle/drain_report.ts";
import { addAgents } from "./commands/agents.ts";
import { addCount, addQueues } from "./commands/count.ts";
import { addCron } from "./commands/cron.ts";
import { addDemo } from "./commands/demo.ts";
import { addDlq } from "./commands/dlq.ts";
import { addDoctor } from "./commands/doctor.ts";
import { addPause, addResume } from "./commands/pause.ts";
import { addMcp } from "./commands/mcp.ts";
import { addInit } from "./commands/init.ts";
import { addLimit } from "./commands/queue_control.ts";
import { addCancel, addDeliver, addPeek, addPurge } from "./commands/mailbox.ts";
import { addRun } from "./commands/run.ts";
import { addSend } from "./commands/send.ts";
import { addStatus } from "./commands/status.ts";
import { addTop } from "./commands/top.ts";
import { type CliError, EXIT, toCliError } from "./_errors.ts";
import { type Io, processIo } from "./_io.ts";
import { paint } from "./_print.ts";

/** How long a command waits at its end until its output on standard error is written. */
const FLUSH_TIMEOUT_MS = 1_000;

/** The commands, in the order of `--help`. */
const COMMANDS: readonly ((program: Command, io: Io) => void)[] = [
  addInit,
  addRun,
  addSend,
  addPeek,
  addCount,
  addQueues,
  addCancel,
  addDeliver,
  addPurge,
  addDlq,
  addCron,
  addStatus,
  addTop,
  addPause,
  addResume,
  addLimit,
  addAgents,
  addMcp,
  addDoctor,
  addDemo,
];

const EXIT_CODES_HELP = `
Exit codes:
  0      success; of run: all work in flight was finished
  1      failure: engine unreachable, loop failed, not found, or not ready
  2      wrong usage; nothing was changed
  ${EXIT_CODES.timed_out}    of run: the shutdown timed out with work left
  128+n  ended by signal n; of run: by a second signal`;

/**
 * Runs one command and resolves to its exit code. It never rejects: errors are printed on standard
 * error.
 *
 * @example
 * ```ts ignore
 * import { main } from "@lastcall/lastcall/cli";
 *
 * const exitCode = await main(["count", "sqlite:./jobs.db"]);
 * ```
 */
export async function main(args: readonly string[], io: Io = processIo()): Promise<number> {
  const program = makeProgram(io);
  try {
    if (args.length === 0) program.outputHelp();
    else await program.parseAsync([...args], { from: "user" });
    return EXIT.done;
  } catch (error) {
    // Commander throws after it has printed the help or the version.
    if (error instanceof CommanderError && error.exitCode === 0) return EXIT.done;
    // `lastcall dlq` without a subcommand: its help was printed.
    if (error instanceof CommanderError && error.code === "commander.help") return EXIT.usage;
    const failure = toCliError(error);
    printError(failure, io, args, commandName(program, args));
    return failure.exitCode;
  } finally {
    // Bounded, because the reader of standard error may have stopped reading.
    const waited = new AbortController();
    await Promise.race([io.err.flush?.(), systemClock.sleep(FLUSH_TIMEOUT_MS, waited)]);
    waited.abort();
  }
}

function makeProgram(io: Io): Command {
  const program = new Command("lastcall")
    .description("Run message loops that shut down gracefully, and inspect their mailboxes.")
    .version(manifest.version, "-V, --version", "show the version")
    .helpOption("-h, --help", "show help")
    .helpCommand("help [command]", "show help for a command")
    .option("--json", 'write results as JSON, one value a line, and errors as {"error": …}')
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => io.out.write(text),
      writeErr: (text) => io.err.write(text),
      // printError() prints them.
      outputError: () => {},
      getOutHelpWidth: () => io.out.columns,
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
    .exitOverride();
  for (const add of COMMANDS) add(program, io);
  return program.addHelpText("after", EXIT_CODES_HELP);
}

function printError(error: CliError, io: Io, args: readonly string[], command: string): void {
  const { message, code } = error;
  if (args.includes("--json")) {
    return io.err.write(`${JSON.stringify({ error: { message, code } })}\n`);
  }
  io.err.write(`${paint(io, io.err)("red", "error:")} ${message}\n`);
  if (code === "usage") io.err.write(`See ${command} --help\n`);
  if (!io.env["LASTCALL_DEBUG"]) return;
  const { stack = "" } = (error.cause ?? error) as Error;
  io.err.write(`${stack}\n`);
}

/** Returns the name of the command with its subcommand: `lastcall dlq show`. */
function commandName(command: Command, [word, ...rest]: readonly string[]): string {
  const sub = command.commands.find((it) => it.name() === word);
  return sub === undefined ? command.name() : `${command.name()} ${commandName(sub, rest)}`;
}
