import { Command, CommanderError } from "commander";
import { addAgents } from "./commands/agents.ts";
import { addCount } from "./commands/count.ts";
import { addDemo } from "./commands/demo.ts";
import { addDlq } from "./commands/dlq.ts";
import { addDoctor } from "./commands/doctor.ts";
import { addDrain } from "./commands/drain.ts";
import { addPeek } from "./commands/peek.ts";
import { addPurge } from "./commands/purge.ts";
import { addResume } from "./commands/resume.ts";
import { addRun } from "./commands/run.ts";
import { addSend } from "./commands/send.ts";
import { addStatus } from "./commands/status.ts";
import { systemClock } from "../mod.ts";
import { type CliError, EXIT, explain } from "./_errors.ts";
import { EXIT_CODES } from "./_help.ts";
import { type Io, processIo } from "./_io.ts";
import { paint } from "./_print.ts";
import { VERSION } from "./_version.ts";

/** How long the end of a command waits for the reader of standard error. */
const LAST_WRITE_MS = 1_000;

/** The commands, in the order in which `--help` tells of them. */
const COMMANDS: readonly ((program: Command, io: Io) => void)[] = [
  addRun,
  addSend,
  addPeek,
  addCount,
  addPurge,
  addDlq,
  addStatus,
  addDrain,
  addResume,
  addAgents,
  addDoctor,
  addDemo,
];

/**
 * Runs one command and resolves to the exit code. It never rejects: what goes wrong is told on
 * standard error.
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
    // Help and version were asked for, and were shown.
    if (error instanceof CommanderError && error.exitCode === 0) return EXIT.done;
    // A command of commands without a command: its help was shown.
    if (error instanceof CommanderError && error.code === "commander.help") return EXIT.usage;
    const explained = explain(error);
    tell(explained, io, args, commandOf(program, args));
    return explained.exitCode;
  } finally {
    // Bounded, because the reader of standard error may have stopped reading.
    const waited = new AbortController();
    await Promise.race([io.err.flush?.(), systemClock.sleep(LAST_WRITE_MS, waited)]);
    waited.abort();
  }
}

function makeProgram(io: Io): Command {
  const program = new Command("lastcall")
    .description("Message loops that stop well: run them, look into their mailboxes, mend them.")
    .version(VERSION, "-V, --version", "show the version")
    .helpOption("-h, --help", "show help")
    .helpCommand("help [command]", "show help for a command")
    .option("--json", 'write results as JSON, one value a line, and errors as {"error": …}')
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => io.out.write(text),
      writeErr: (text) => io.err.write(text),
      // Errors are told once, by tell().
      outputError: () => {},
      getOutHelpWidth: () => io.out.columns,
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
    .exitOverride();
  for (const add of COMMANDS) add(program, io);
  return program.addHelpText("after", EXIT_CODES);
}

function tell(error: CliError, io: Io, args: readonly string[], command: string): void {
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

/** The command that was called, as far as there is one: `lastcall dlq show`. */
function commandOf(command: Command, [word, ...rest]: readonly string[]): string {
  const sub = command.commands.find((it) => it.name() === word);
  return sub === undefined ? command.name() : `${command.name()} ${commandOf(sub, rest)}`;
}
