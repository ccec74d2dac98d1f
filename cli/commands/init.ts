import { type Command, Option } from "commander";
import { mkdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import manifest from "../../deno.json" with { type: "json" };
import { ENGINES } from "../../src/engines/registry.ts";
import { CliError, usageError } from "../_errors.ts";
import type { Io } from "../_io.ts";
import { examples } from "../_options.ts";
import { printer } from "../_print.ts";
import { type Project, RUNTIMES } from "../init/facts.ts";
import { projectFiles } from "../init/templates.ts";

interface Flags {
  readonly runtime?: string;
  readonly engine?: string;
  readonly name?: string;
  readonly force?: boolean;
}

const RUNTIME_NAMES = Object.keys(RUNTIMES);
/** An engine is named by its first scheme, as in its URLs. */
const ENGINE_NAMES = ENGINES.map(({ schemes }) => schemes[0]!);

/** Adds `lastcall init`, which writes a new worker and the files to deploy it. */
export function addInit(program: Command, io: Io): void {
  program.command("init")
    .description(
      "Write a worker, and the files to run it in Docker, on Kubernetes and with systemd. Asks for " +
        "the runtime and the engine in a terminal. Overwrites nothing.",
    )
    .argument("[folder]", "folder of the project, which is created", ".")
    .addOption(new Option("--runtime <name>", "runtime of the worker").choices(RUNTIME_NAMES))
    .addOption(new Option("--engine <name>", "where its messages are").choices(ENGINE_NAMES))
    .option("--name <name>", "name of the worker and its queue (default: that of the folder)")
    .option("--force", "overwrite files that exist")
    .addHelpText(
      "after",
      examples(
        ["lastcall init jobs --runtime node --engine sqlite", "a worker on Node"],
        ["lastcall init jobs --runtime bun --engine sqlite --force", "over an earlier one"],
        ["lastcall init mails --runtime deno --engine sqlite --json", "as JSON"],
      ),
    )
    .action(async (folder: string, flags: Flags, command: Command) => {
      const name = checkName(folder, flags.name);
      const runtime = flags.runtime ?? await choose(io, "runtime", RUNTIME_NAMES);
      const usable = ENGINES.filter(({ runtimes = [runtime] }) => runtimes.includes(runtime));
      const names = usable.map(({ schemes }) => schemes[0]!);
      const scheme = flags.engine ?? await choose(io, "engine", names);
      const engine = usable.find(({ schemes }) => schemes[0] === scheme);
      if (engine === undefined) {
        throw usageError(`${scheme} does not run on ${runtime}: choose ${names.join(", ")}`);
      }
      const project: Project = { name, runtime, engine, version: manifest.version };
      const files = projectFiles(project);
      writeFiles(folder, files, flags.force === true);
      const { install, startScript } = RUNTIMES[runtime]!;
      const steps = [
        ...(resolve(folder) === resolve(".") ? [] : [`cd ${folder}`]),
        ...(runtime === "deno" ? [] : [install.split(" --")[0]!]),
        startScript,
      ];
      const list = Object.keys(files).map((file) => `wrote ${join(folder, file)}`);
      printer(io, command).result(
        { folder: resolve(folder), name, runtime, engine: scheme, files: Object.keys(files) },
        [...list, "", `Next: ${steps.join(" && ")}`].join("\n"),
      );
    });
}

const NAME = /^[a-z](?:[a-z0-9-]{0,38}[a-z0-9])?$/;

/** Returns a name that packages, units and Kubernetes accept. */
function checkName(folder: string, given: string | undefined): string {
  if (given !== undefined && !NAME.test(given)) {
    throw usageError(
      `Invalid --name ${given}: write up to 40 lower-case letters, digits and dashes, with a letter first`,
    );
  }
  const text = basename(resolve(folder)).toLowerCase().replace(/[^a-z0-9]+/g, "-");
  const name = text.replace(/^[^a-z]+/, "").slice(0, 40).replace(/-+$/, "");
  return given ?? (name || "worker");
}

async function choose(io: Io, what: string, names: readonly string[]): Promise<string> {
  if (!io.typed || !io.err.interactive) {
    throw usageError(`No ${what}, and no terminal to ask at: add --${what} ${names.join("|")}`);
  }
  const answer = await io.ask(`Which ${what}: ${names.join(", ")}? `);
  if (answer === undefined) throw new CliError("failed", "Nothing was written.");
  if (names.includes(answer.trim())) return answer.trim();
  throw usageError(`Unknown ${what} ${answer.trim()}: choose ${names.join(", ")}`);
}

/** Writes all files or, without `force`, none. */
function writeFiles(folder: string, files: Readonly<Record<string, string>>, force: boolean): void {
  const paths = Object.keys(files).map((file) => join(folder, file));
  const existing = force ? [] : paths.filter((path) => statSync(path, { throwIfNoEntry: false }));
  if (existing.length > 0) {
    throw new CliError(
      "failed",
      `Nothing was written, because these files exist: ${existing.join(", ")}. Choose another ` +
        "folder, or add --force to overwrite them",
    );
  }
  const written: string[] = [];
  try {
    mkdirSync(folder, { recursive: true });
    for (const [file, text] of Object.entries(files)) {
      const path = join(folder, file);
      writeFileSync(path, text, { flag: force ? "w" : "wx" });
      if (!force) written.push(path);
    }
  } catch (error) {
    for (const path of written) rmSync(path, { force: true });
    const { message } = error as Error;
    throw new CliError("failed", `Cannot write to ${folder}: ${message}`, { cause: error });
  }
}
