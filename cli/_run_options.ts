// The options of `run`. Each can also be set by an environment variable, for containers.

import type { Command } from "commander";
import process from "node:process";
import type { LoopGroupOptions, RunOptions } from "../mod.ts";
import type { FailurePolicy } from "../src/lifecycle/group_options.ts";
import { usageError } from "./_errors.ts";
import type { HandlerOptions } from "./_module.ts";
import {
  definedOnly,
  envOptions,
  parseCount,
  parseDuration,
  parseVisibilityTimeout,
} from "./_options.ts";

/** The values of the options, from flags and environment variables. */
export interface RunFlags {
  readonly mailbox?: string;
  readonly name?: string;
  readonly concurrency?: number;
  readonly prefetch?: number | "auto";
  readonly maxDeliveries?: number;
  readonly visibilityTimeout?: number;
  readonly maxIterations?: number;
  readonly maxMessages?: number;
  readonly untilEmpty?: boolean;
  readonly shutdownTimeout?: number;
  readonly unreadyDelay?: number;
  readonly onFailure?: FailurePolicy;
  readonly healthPort?: number;
  readonly healthHost?: string;
  readonly token?: string;
}

/** Options that need a handler: exported loops and groups have fixed them in code. */
const HANDLER_ONLY = ["mailbox", "name", "concurrency", "prefetch", "maxDeliveries"];
/** Options that an exported group has fixed in code. */
const NOT_FOR_GROUPS = [
  "shutdownTimeout",
  "unreadyDelay",
  "onFailure",
  "healthPort",
  "healthHost",
  "token",
];

/** Options of a run, which a program that calls `main()` has fixed in code. */
const NOT_FOR_PROGRAMS = ["visibilityTimeout", "maxIterations", "maxMessages", "untilEmpty"];

/** Adds the options to the command. */
export function addRunOptions(command: Command): Command {
  const add = envOptions(command);
  add("--mailbox <url>", "the mailbox of a handler");
  add("--name <name>", "name of the loop in logs and reports (default: the module's name)");
  add("--concurrency <count>", "messages handled at a time (default: 1)", parseCount(1, 1_000));
  add(
    "--prefetch <count>",
    "messages received ahead and released on shutdown (default: auto, up to 20 ms of work)",
    parsePrefetch,
  );
  add(
    "--max-deliveries <count>",
    "dead-letter a message after this many deliveries (default: 10)",
    parseCount(1),
  );
  add(
    "--visibility-timeout <time>",
    "length of a message's lease (default: 5m)",
    parseVisibilityTimeout,
  );
  add("--max-iterations <count>", "end after this many receives (default: never)", parseCount());
  add("--max-messages <count>", "end after this many messages (default: never)", parseCount());
  add("--until-empty", "end when the mailbox is empty and its messages are handled");
  add("--shutdown-timeout <time>", "time limit of a shutdown (default: 30s)", parseDuration);
  add(
    "--unready-delay <time>",
    "part of it that the group keeps working while not ready (default: 0s)",
    parseDuration,
  );
  add("--on-failure <policy>", "what to do when a loop fails (default: shutdown)")
    .choices(["shutdown", "restart", "ignore"]);
  add("--health-port <port>", "serve probes and the live page on this port", parseCount(0, 65_535));
  add("--health-host <host>", "address to listen on (default: 0.0.0.0)");
  add("--token <token>", "token for control over HTTP; prefer the environment variable");
  return command;
}

function parsePrefetch(text: string): number | "auto" {
  return text === "auto" ? text : parseCount(0, 1_000)(text);
}

/** Corrects boolean flags: commander takes their variables as true whatever the value. */
export function readFlags(command: Command, flags: RunFlags): RunFlags {
  if (command.getOptionValueSource("untilEmpty") !== "env") return flags;
  const text = process.env["LASTCALL_UNTIL_EMPTY"] ?? "";
  if (/^(true|1)$/i.test(text)) return flags;
  if (/^(false|0|)$/i.test(text)) return { ...flags, untilEmpty: false };
  throw usageError(`Invalid LASTCALL_UNTIL_EMPTY: expected true or false, got "${text}"`);
}

/** Refuses flags without effect. Environment variables may be meant for other workers. */
export function refuseFlags(
  command: Command,
  kind: "handler" | "loops" | "group" | "program",
  path: string,
): void {
  if (kind === "handler") return;
  const useless = [
    ...HANDLER_ONLY,
    ...(kind === "loops" ? [] : NOT_FOR_GROUPS),
    ...(kind === "program" ? NOT_FOR_PROGRAMS : []),
  ];
  for (const option of command.options) {
    const name = option.attributeName();
    if (!useless.includes(name) || command.getOptionValueSource(name) !== "cli") continue;
    const does =
      { loops: "exports loops", group: "exports a group", program: "runs a group" }[kind];
    const place = HANDLER_ONLY.includes(name) ? "the loop" : "the group";
    throw usageError(
      `${option.long} has no effect here: ${path} ${does}; set it in the options of ${place}`,
    );
  }
}

/** Returns the options of the group. */
export function groupOptions(flags: RunFlags): LoopGroupOptions {
  return definedOnly({
    shutdownTimeoutMs: flags.shutdownTimeout,
    unreadyDelayMs: flags.unreadyDelay,
    onFailure: flags.onFailure,
    healthPort: flags.healthPort,
    healthHost: flags.healthHost,
  });
}

/** Returns the options of the run. */
export function runOptions(flags: RunFlags): RunOptions {
  return definedOnly({
    maxIterations: flags.maxIterations,
    maxMessages: flags.maxMessages,
    untilEmpty: flags.untilEmpty,
    visibilityTimeoutMs: flags.visibilityTimeout,
  });
}

/** Returns the options of a handler's loop. Flags and variables override the module's options. */
export function handlerOptions(
  flags: RunFlags,
  options: HandlerOptions,
  moduleName: string,
): HandlerOptions {
  const { name, concurrency, prefetch, maxDeliveries } = flags;
  if (maxDeliveries !== undefined && options.deadLetter && "afterFailure" in options.deadLetter) {
    throw usageError(
      "--max-deliveries has no effect here: the module's options have a DeadLetterPolicy; set it there",
    );
  }
  return {
    name: moduleName,
    ...options,
    ...definedOnly({ name, concurrency, prefetch }),
    ...(maxDeliveries === undefined
      ? {}
      : { deadLetter: { ...options.deadLetter, maxDeliveries } }),
  };
}
