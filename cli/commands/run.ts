import type { Command } from "commander";
import { parse } from "node:path";
import {
  InMemoryMailbox,
  libraryLog,
  LoopGroup,
  type LoopGroupOptions,
  type Mailbox,
  MailboxLoop,
  type Support,
} from "../../mod.ts";
import { logLine } from "../../src/log.ts";
import { textOf, usageError } from "../_errors.ts";
import { checkHealth } from "../_check_health.ts";
import { examples, MAILBOXES } from "../_help.ts";
import type { Io } from "../_io.ts";
import { jsonLog } from "../_json_log.ts";
import { loadModule } from "../_load_module.ts";
import { openForGroup } from "../_mailbox.ts";
import { printer } from "../_print.ts";
import {
  addRunOptions,
  groupOptions,
  handlerOptions,
  readFlags,
  refuseFlags,
  type RunFlags,
  runOptions,
} from "../_run_options.ts";
import { type WhatToRun, whatToRun } from "../_what_to_run.ts";

const MODULES = `
The module exports, by default or by name:
  a function        handles a message, as ({ body }, { signal }) => …; needs --mailbox
                    "export const options" adds any option of MailboxLoop to it
  a loop, or loops  run together as a group
  a LoopGroup       runs as it is

  TypeScript runs on Deno, Bun, and Node from 22.18 on.`;

/** `lastcall run`: runs a module to its exit code. */
export function addRun(program: Command, io: Io): void {
  const run = program.command("run")
    .description("Run the handler, the loops or the group that a module exports, until a signal.")
    .argument("<module>", "the path of the module");
  addRunOptions(run)
    .addHelpText("after", MODULES)
    .addHelpText("after", MAILBOXES)
    .addHelpText(
      "after",
      examples(
        ["lastcall run worker.ts --mailbox sqlite:./jobs.db", "a handler"],
        ["lastcall run worker.ts --mailbox sqlite:./jobs.db --concurrency 8", "eight at a time"],
        ["lastcall run worker.ts --mailbox sqlite:./jobs.db --until-empty", "a batch, then exit"],
        ["lastcall run loops.ts --health-port 8080 --shutdown-timeout 25s", "loops, with probes"],
        ["LASTCALL_MAILBOX=sqlite:./jobs.db lastcall run worker.ts", "by environment"],
      ),
    )
    .action(async (path: string, given: RunFlags, command: Command) => {
      const flags = readFlags(command, given);
      const what = await whatToRun(path, await loadModule(path));
      refuseFlags(command, what.kind, path);
      if (what.kind === "group") return await what.group.main(runOptions(flags));
      const { json, note } = printer(io, command);
      const log = json ? { log: jsonLog(io) } : {};
      await checkHealth(flags);
      const group = await makeGroup(path, what, flags, { ...io.group, ...log });
      // What reads a pipe gets one format: lines of JSON, as those about the stop.
      const tell = (message: string, hint = "") =>
        note(io.err.interactive ? `${message}${hint}` : logLine("info", message));
      const names = group.loops.map(({ name }) => name).join(", ");
      tell(`running ${names}`, "; Ctrl+C stops it well");
      if (flags.healthPort) tell(`look at it on http://localhost:${flags.healthPort}/`);
      await group.main(runOptions(flags));
    });
}

async function makeGroup(
  path: string,
  what: Exclude<WhatToRun, { readonly kind: "group" }>,
  flags: RunFlags,
  options: LoopGroupOptions,
): Promise<LoopGroup> {
  if (what.kind === "loops") return checked(() => groupOf(what.loops, flags, options));
  const { log } = options;
  const make = (mailbox: Mailbox<unknown>, support: readonly Support[]) => {
    const loop = new MailboxLoop<unknown>({
      ...(log === undefined ? {} : { log }),
      ...handlerOptions(flags, what.options, parse(path).name),
      mailbox,
      handler: what.handler,
    });
    return groupOf([loop], flags, options, mailbox, support);
  };
  const { mailbox } = what.options;
  if (mailbox !== undefined && flags.mailbox === undefined) {
    return checked(() => make(mailbox, []));
  }
  if (flags.mailbox === undefined) {
    throw usageError(
      `${path} exports a handler, which needs a mailbox: add --mailbox sqlite:./jobs.db, or set ` +
        "LASTCALL_MAILBOX",
    );
  }
  // The same on a mailbox in memory: whatever is wrong is told before anything is opened.
  checked(() => make(new InMemoryMailbox("check"), []));
  const { mailbox: opened, support } = await openForGroup(flags.mailbox, {
    keepTrying: flags.onFailure === "restart",
    log: log ?? libraryLog,
  });
  return make(opened, [support]);
}

function groupOf(
  loops: ConstructorParameters<typeof LoopGroup>[0],
  flags: RunFlags,
  options: LoopGroupOptions,
  mailbox?: Mailbox<unknown>,
  support: readonly Support[] = [],
): LoopGroup {
  return new LoopGroup(loops, {
    ...options,
    ...groupOptions(flags),
    health: {
      ...(flags.token === undefined ? {} : { token: flags.token }),
      ...(mailbox === undefined ? {} : { mailboxes: [mailbox] }),
    },
    support,
  });
}

/** Options that the package refuses are wrong usage here. */
function checked<T>(make: () => T): T {
  try {
    return make();
  } catch (error) {
    throw usageError(textOf(error), { cause: error });
  }
}
