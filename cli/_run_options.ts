// The options of `run`. Each has an environment variable too, so that a container needs no arguments.

import type { Command } from "commander";
import process from "node:process";
import type { FailurePolicy, LoopGroupOptions, RunOptions } from "../mod.ts";
import { parseCount, parseDuration, parseVisibility } from "./_duration.ts";
import { envOptions } from "./_env_option.ts";
import { usageError } from "./_errors.ts";
import type { HandlerOptions } from "./_what_to_run.ts";

/** What was given, by flag or by environment. */
export interface RunFlags {
  readonly mailbox?: string;
  readonly name?: string;
  readonly concurrency?: number;
  readonly prefetch?: number;
  readonly maxDeliveries?: number;
  readonly visibilityTimeout?: number;
  readonly maxIterations?: number;
  readonly untilEmpty?: boolean;
  readonly shutdownTimeout?: number;
  readonly unreadyDelay?: number;
  readonly onFailure?: FailurePolicy;
  readonly healthPort?: number;
  readonly healthHost?: string;
  readonly token?: string;
}

/** Those that make sense for a handler alone: other loops have been made already. */
const OF_HANDLERS = ["mailbox", "name", "concurrency", "prefetch", "maxDeliveries"];
/** Those that a group of the module has decided already. */
const OF_GROUPS = [
  "shutdownTimeout",
  "unreadyDelay",
  "onFailure",
  "healthPort",
  "healthHost",
  "token",
];

/** Adds them to the command. */
export function addRunOptions(command: Command): Command {
  const add = envOptions(command);
  add("--mailbox <url>", "where a handler's messages come from");
  add("--name <name>", "the loop's name in logs and reports (default: that of the module)");
  add("--concurrency <count>", "messages at a time (default: 1)", parseCount(1, 1_000));
  add(
    "--prefetch <count>",
    "received ahead, given back on a stop (default: 0)",
    parseCount(0, 1_000),
  );
  add(
    "--max-deliveries <count>",
    "then a message is a dead letter (default: never)",
    parseCount(1),
  );
  add("--visibility-timeout <time>", "how long a message is leased (default: 5m)", parseVisibility);
  add("--max-iterations <count>", "end after so many receives (default: never)", parseCount());
  add("--until-empty", "end when the mailbox is empty and its messages are handled");
  add("--shutdown-timeout <time>", "how long a stop may take in all (default: 30s)", parseDuration);
  add("--unready-delay <time>", "of that, to go on working first (default: 0s)", parseDuration);
  add("--on-failure <policy>", "what to do when a loop fails (default: shutdown)")
    .choices(["shutdown", "restart", "ignore"]);
  add("--health-port <port>", "answer probes and show the live page there", parseCount(0, 65_535));
  add("--health-host <host>", "where to listen for that (default: 0.0.0.0)");
  add("--token <token>", "who has it may drain by HTTP; better given by environment");
  return command;
}

/** Reads a variable that stands for a flag: commander takes it as set whatever it says. */
export function readFlags(command: Command, flags: RunFlags): RunFlags {
  if (command.getOptionValueSource("untilEmpty") !== "env") return flags;
  const text = process.env["LASTCALL_UNTIL_EMPTY"] ?? "";
  if (/^(true|1)$/i.test(text)) return flags;
  if (/^(false|0|)$/i.test(text)) return { ...flags, untilEmpty: false };
  throw usageError(`Invalid LASTCALL_UNTIL_EMPTY: expected true or false, got "${text}"`);
}

/** Refuses flags that would have no effect. The environment may hold what others need. */
export function refuseFlags(
  command: Command,
  kind: "handler" | "loops" | "group",
  path: string,
): void {
  const useless = kind === "handler"
    ? []
    : kind === "loops"
    ? OF_HANDLERS
    : [...OF_HANDLERS, ...OF_GROUPS];
  for (const option of command.options) {
    const name = option.attributeName();
    if (!useless.includes(name) || command.getOptionValueSource(name) !== "cli") continue;
    const whose = OF_HANDLERS.includes(name) ? "the loop" : "the group";
    throw usageError(
      `${option.long} has no effect here: ${path} exports ${
        kind === "group" ? "a group" : "loops"
      }, so it belongs into the options of ${whose}`,
    );
  }
}

/** What the group gets. */
export function groupOptions(flags: RunFlags): LoopGroupOptions {
  return given({
    shutdownTimeoutMs: flags.shutdownTimeout,
    unreadyDelayMs: flags.unreadyDelay,
    onFailure: flags.onFailure,
    healthPort: flags.healthPort,
    healthHost: flags.healthHost,
  });
}

/** What the run gets. */
export function runOptions(flags: RunFlags): RunOptions {
  return given({
    maxIterations: flags.maxIterations,
    untilEmpty: flags.untilEmpty,
    visibilityTimeoutMs: flags.visibilityTimeout,
  });
}

/** What the loop of a handler gets: flags and environment win over the module's own options. */
export function handlerOptions(
  flags: RunFlags,
  options: HandlerOptions,
  name: string,
): HandlerOptions {
  const { name: chosen, concurrency, prefetch, maxDeliveries } = flags;
  if (maxDeliveries !== undefined && options.deadLetter && "afterFailure" in options.deadLetter) {
    throw usageError(
      "--max-deliveries has no effect here: the module's options have a DeadLetterPolicy, so it " +
        "belongs into that",
    );
  }
  return {
    name,
    ...options,
    ...given({ name: chosen, concurrency, prefetch }),
    ...(maxDeliveries === undefined
      ? {}
      : { deadLetter: { ...options.deadLetter, maxDeliveries } }),
  };
}

/** Leaves out what is undefined, which is not the same as not given. */
function given<O extends object>(options: O): { [K in keyof O]?: NonNullable<O[K]> } {
  const entries = Object.entries(options).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof O]?: NonNullable<O[K]> };
}
