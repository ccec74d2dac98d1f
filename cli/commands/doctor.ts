import type { Command } from "commander";
import { parse } from "node:path";
import { InMemoryMailbox, LoopGroup, MailboxLoop } from "../../mod.ts";
import { DEFAULT_VISIBILITY_TIMEOUT_MS } from "../../src/engine.ts";
import { ENGINES } from "../../src/engines/registry.ts";
import { DEFAULT_SHUTDOWN_TIMEOUT_MS } from "../../src/lifecycle/runnable.ts";
import { DEFAULT_WATCHDOG_THRESHOLD_MS } from "../../src/lifecycle/watchdog.ts";
import { oneLine, type Paint } from "../../src/terminal/text.ts";
import { asUsage, CliError, toCliError, usageError } from "../_errors.ts";
import type { Io } from "../_io.ts";
import type { Runnables } from "../_module.ts";
import { definedOnly, envOptions, examples, parseDuration, parseInterval } from "../_options.ts";
import { counted, paint, printer } from "../_print.ts";
import {
  addRunOptions,
  groupOptions,
  handlerOptions,
  readFlags,
  refuseFlags,
  type RunFlags,
  runOptions,
} from "../_run_options.ts";
import { checkRuntime, runtimeFacts } from "../doctor/environment_checks.ts";
import { type Finding, flagValue, type Level, problem, warning } from "../doctor/finding.ts";
import { inspectModule } from "../doctor/inspect.ts";
import { detectPlatform, platformOf, PLATFORMS, type Settings } from "../doctor/settings.ts";
import { checkPlatform } from "../doctor/stop_checks.ts";
import { checkSettings, checkWorker } from "../doctor/worker.ts";

interface Flags extends RunFlags {
  readonly platform?: string;
  readonly grace?: number;
  readonly lease: boolean;
  readonly leaseInterval?: number;
  readonly processingTime?: number;
  readonly watchdogThreshold?: number | false;
  readonly loadTimeout?: number;
}

/** Flags for settings that are in the code of a module. */
const WITHOUT_MODULE = ["lease", "leaseInterval", "watchdogThreshold"];

const LOAD_TIMEOUT_MS = 10_000;

const ABOUT = `
A shutdown consists of the unready delay, the time for work in flight, and a reserve to release the
rest. All of it must fit into the grace period, after which the platform kills the process:
  ${gracePeriods()}

With a module, the doctor loads it and checks the settings in its code: of the group whose main() or
run() it calls, which does not start, or of what it exports for lastcall run. Other settings are those
of run, by flag or environment variable. The doctor creates nothing${exceptions()}.

Exit code 0: no problems. 1: problems.`;

function gracePeriods(): string {
  return PLATFORMS.flatMap(({ name, graceMs }) => {
    return graceMs === undefined ? [] : `${name} ${flagValue(graceMs)}`;
  }).join(", ");
}

function exceptions(): string {
  const created = ENGINES.flatMap(({ alwaysCreates = [] }) => alwaysCreates);
  return created.length === 0 ? "" : `, except ${created.join(" and ")}`;
}

/** Adds `lastcall doctor`, which checks that a worker can shut down gracefully. */
export function addDoctor(program: Command, io: Io): void {
  const doctor = program.command("doctor")
    .description(
      "Check that a worker can shut down gracefully with its settings, and say what to change.",
    )
    .argument("[module]", "path of the worker: a program with main(), or a module for run");
  addOptions(doctor)
    .addHelpText("after", ABOUT)
    .addHelpText(
      "after",
      examples(
        ["lastcall doctor", "the defaults, on this platform"],
        ["lastcall doctor worker.ts", "the settings in the code of a worker"],
        ["lastcall doctor worker.ts --mailbox sqlite:./jobs.db", "of a handler"],
        ["lastcall doctor --platform kubernetes --processing-time 40s", "before a deploy"],
        ["lastcall doctor --grace 60s --shutdown-timeout 55s --json", "as JSON"],
      ),
    )
    .action(async (module: string | undefined, given: Flags, command: Command) => {
      const flags = { ...given, ...readFlags(command, given) };
      const settings = settingsOf(io, module, flags);
      const findings = module === undefined
        ? await checkSettings(settings)
        : await checkModule(module, settings, flags, command);
      const { json } = printer(io, command);
      const style = paint(io, io.out);
      const lines = json ? findings.map((it) => JSON.stringify(it)) : findingLines(findings, style);
      io.out.write(`${lines.join("\n")}\n`);
      const bad = findings.filter(({ level }) => level === "problem").map(({ check }) => check);
      if (bad.length === 0) return;
      throw new CliError("failed", `${counted(bad.length, "problem")}: ${bad.join(", ")}`);
    });
}

function addOptions(command: Command): Command {
  const add = envOptions(command);
  add("--platform <name>", "platform of the worker (default: detected)")
    .choices(PLATFORMS.map(({ name }) => name));
  add(
    "--grace <time>",
    "time from the signal to the kill (default: the platform's)",
    parseDuration,
  );
  add("--processing-time <time>", "time of the longest handler", parseDuration);
  add("--load-timeout <time>", "time limit of loading the module (default: 10s)", parseInterval);
  add("--lease-interval <time>", "interval of lease extensions (default: 60s)", parseDuration);
  command.option("--no-lease", "leases are not extended while a handler runs");
  add(
    "--watchdog-threshold <time>",
    "silence after which the watchdog kills, or off (default: 12m)",
    (text) => {
      return text === "off" ? false : parseDuration(text);
    },
  );
  return addRunOptions(command);
}

function settingsOf(io: Io, module: string | undefined, flags: Flags): Settings {
  const {
    mailbox,
    healthPort,
    healthHost = "0.0.0.0",
    watchdogThreshold = DEFAULT_WATCHDOG_THRESHOLD_MS,
  } = flags;
  const named = flags.platform !== undefined;
  const platform = named ? platformOf(flags.platform) : detectPlatform(io.env);
  return {
    ...definedOnly({
      detectedBy: named ? undefined : platform.variable,
      graceMs: flags.grace ?? platform.graceMs,
      leaseIntervalMs: flags.leaseInterval,
      processingTimeMs: flags.processingTime,
      healthPort,
      mailbox,
      module,
    }),
    platform,
    shutdownTimeoutMs: flags.shutdownTimeout ?? DEFAULT_SHUTDOWN_TIMEOUT_MS,
    unreadyDelayMs: flags.unreadyDelay ?? 0,
    visibilityTimeoutMs: flags.visibilityTimeout ?? DEFAULT_VISIBILITY_TIMEOUT_MS,
    leases: flags.lease,
    watchdogThresholdMs: watchdogThreshold,
    healthHost,
  };
}

/** Loads the module and checks the settings in its code. */
async function checkModule(
  path: string,
  settings: Settings,
  flags: Flags,
  command: Command,
): Promise<readonly Finding[]> {
  const runtime = checkRuntime(settings, runtimeFacts(settings));
  const failed = (
    finding?: Finding,
  ) => [...checkPlatform(settings), ...runtime, ...(finding === undefined ? [] : [finding])];
  if (runtime.some(({ level }) => level === "problem")) return failed();
  let needsMailbox = false;
  try {
    const inspection = await inspectModule(path, flags.loadTimeout ?? LOAD_TIMEOUT_MS, (found) => {
      needsMailbox = found.kind === "handler" &&
        (flags.mailbox ?? found.options.mailbox) === undefined;
      return start(found, path, flags);
    });
    refuseFlags(command, inspection.kind, path);
    const useless = WITHOUT_MODULE.find((name) => command.getOptionValueSource(name) === "cli");
    if (useless !== undefined) {
      const { long } = command.options.find((it) => it.attributeName() === useless)!;
      throw usageError(`${long} has no effect here: the code of ${path} has this setting`);
    }
    const findings = await checkWorker(settings, inspection);
    if (!needsMailbox) return findings;
    return [...findings.filter(({ check }) => check !== "engine"), noMailbox()];
  } catch (error) {
    const { code, message } = toCliError(error);
    if (code === "usage" && !message.startsWith("Cannot load")) throw error;
    return failed(problem("module", {
      found: message,
      why: "the doctor cannot read the settings in its code",
      change: "the module, as the message says",
    }));
  }
}

/** Starts what a module exports as `lastcall run` does. The inspector takes the group before it runs. */
async function start(found: Runnables, path: string, flags: Flags): Promise<unknown> {
  if (found.kind === "group") return await found.group.main(runOptions(flags));
  const loops = found.kind === "loops" ? found.loops : asUsage(() => [
    new MailboxLoop<unknown>({
      ...handlerOptions(flags, found.options, parse(path).name),
      mailbox: flags.mailbox ?? found.options.mailbox ?? new InMemoryMailbox("none"),
      handler: found.handler,
    }),
  ]);
  return await asUsage(() => new LoopGroup(loops, groupOptions(flags))).main(runOptions(flags));
}

function noMailbox(): Finding {
  return warning("engine", {
    found: "no mailbox is given",
    why: "run needs one for a handler, and the doctor cannot check it",
    change: "--mailbox sqlite:./jobs.db, or LASTCALL_MAILBOX",
  });
}

const COLOURS = { ok: "green", warning: "yellow", problem: "red" } as const;

function findingLines(findings: readonly Finding[], style: Paint): readonly string[] {
  const width = Math.max(...findings.map(({ check }) => check.length));
  const indent = " ".repeat("problem".length + width + 4);
  const several = new Set(findings.map(({ loop }) => loop)).size > 2; // besides those without a loop
  const lines = findings.flatMap(({ check, loop, level, found, why, change }) => [
    `${style(COLOURS[level], level.padEnd(7))}  ${check.padEnd(width)}  ` +
    oneLine(several && loop !== undefined ? `${loop}: ${found}` : found),
    ...(why === undefined ? [] : [`${indent}why: ${why}`]),
    ...(change === undefined ? [] : [`${indent}change: ${style("bold", oneLine(change))}`]),
  ]);
  const count = (level: Level) => findings.filter((it) => it.level === level).length;
  const sum = `${counted(count("problem"), "problem")}, ${counted(count("warning"), "warning")}`;
  return [...lines, "", count("problem") + count("warning") === 0 ? "all checks passed" : sum];
}
