import type { Command } from "commander";
import { parse } from "node:path";
import {
  InMemoryMailbox,
  libraryLog,
  LoopGroup,
  type LoopGroupOptions,
  type Mailbox,
  MailboxLoop,
  type Resource,
} from "../../mod.ts";
import { logLine } from "../../src/log.ts";
import { asUsage, usageError } from "../_errors.ts";
import { checkHealth } from "../_health.ts";
import type { Io } from "../_io.ts";
import { MAILBOXES, openForGroup } from "../_mailbox.ts";
import { loadRunnables, type Runnables } from "../_module.ts";
import { examples } from "../_options.ts";
import { jsonLog, printer } from "../_print.ts";
import {
  addRunOptions,
  groupOptions,
  handlerOptions,
  readFlags,
  refuseFlags,
  type RunFlags,
  runOptions,
} from "../_run_options.ts";

const MODULES = `
The module exports, by default or by name:
  a function        handles a message, as ({ body }, { signal }) => …; needs --mailbox;
                    "export const options" adds options of MailboxLoop
  a loop, or loops  run together as a group
  a LoopGroup       runs with its own options

  TypeScript runs on Deno, Bun, and Node 22.18 or newer.`;

/** Adds `lastcall run`, which runs what a module exports. */
export function addRun(program: Command, io: Io): void {
  const run = program.command("run")
    .description("Run the handler, the loops or the group that a module exports, until a signal.")
    .argument("<module>", "path of the module");
  addRunOptions(run)
    .addHelpText("after", MODULES)
    .addHelpText("after", MAILBOXES)
    .addHelpText(
      "after",
      examples(
        ["lastcall run worker.ts --mailbox sqlite:./jobs.db", "a handler"],
        [
          "lastcall run worker.ts --mailbox sqlite:./jobs.db --concurrency 8",
          "eight messages at a time",
        ],
        [
          "lastcall run worker.ts --mailbox sqlite:./jobs.db --until-empty",
          "until the mailbox is empty",
        ],
        [
          "lastcall run loops.ts --health-port 8080 --shutdown-timeout 25s",
          "loops, with health probes",
        ],
        ["LASTCALL_MAILBOX=sqlite:./jobs.db lastcall run worker.ts", "configured by environment"],
      ),
    )
    .action(async (path: string, given: RunFlags, command: Command) => {
      const flags = readFlags(command, given);
      const found = await loadRunnables(path);
      refuseFlags(command, found.kind, path);
      if (found.kind === "group") return await found.group.main(runOptions(flags));
      const { json, note } = printer(io, command);
      const log = json ? { log: jsonLog(io) } : {};
      await checkHealth(flags);
      const group = await makeGroup(path, found, flags, { ...io.group, ...log });
      // In a pipe all lines on standard error are JSON, as those of the shutdown are.
      const announce = (message: string, hint = "") =>
        note(io.err.interactive ? `${message}${hint}` : logLine("info", message));
      const names = group.loops.map(({ name }) => name).join(", ");
      announce(`running ${names}`, "; Ctrl+C shuts down gracefully");
      if (flags.healthPort) announce(`live page on http://localhost:${flags.healthPort}/`);
      await group.main(runOptions(flags));
    });
}

async function makeGroup(
  path: string,
  found: Exclude<Runnables, { readonly kind: "group" }>,
  flags: RunFlags,
  options: LoopGroupOptions,
): Promise<LoopGroup> {
  if (found.kind === "loops") return asUsage(() => groupOf(found.loops, flags, options));
  const { log } = options;
  const make = (mailbox: Mailbox<unknown>, resources: readonly Resource[]) => {
    const loop = new MailboxLoop<unknown>({
      ...(log === undefined ? {} : { log }),
      ...handlerOptions(flags, found.options, parse(path).name),
      mailbox,
      handler: found.handler,
    });
    return groupOf([loop], flags, options, mailbox, resources);
  };
  const { mailbox } = found.options;
  if (typeof mailbox === "object" && flags.mailbox === undefined) {
    return asUsage(() => make(mailbox, []));
  }
  const url = flags.mailbox ?? mailbox;
  if (typeof url !== "string") {
    throw usageError(
      `${path} exports a handler, which needs a mailbox: add --mailbox sqlite:./jobs.db, or set ` +
        "LASTCALL_MAILBOX",
    );
  }
  // A dry run on a mailbox in memory reports bad options before the real mailbox is opened.
  asUsage(() => make(new InMemoryMailbox("check"), []));
  const { mailbox: opened, resource } = await openForGroup(url, {
    keepTrying: flags.onFailure === "restart",
    log: log ?? libraryLog,
  });
  return make(opened, [resource]);
}

function groupOf(
  loops: ConstructorParameters<typeof LoopGroup>[0],
  flags: RunFlags,
  options: LoopGroupOptions,
  mailbox?: Mailbox<unknown>,
  resources: readonly Resource[] = [],
): LoopGroup {
  return new LoopGroup(loops, {
    ...options,
    ...groupOptions(flags),
    health: {
      ...(flags.token === undefined ? {} : { token: flags.token }),
      ...(mailbox === undefined ? {} : { mailboxes: [mailbox] }),
    },
    resources,
  });
}
