import type { Command } from "commander";
import { examples, MAILBOXES } from "../_help.ts";
import type { Io } from "../_io.ts";
import { onlyMailbox, withMailbox } from "../_mailbox.ts";
import { purge } from "../_purge.ts";

/** `lastcall purge`: empties a mailbox. */
export function addPurge(program: Command, io: Io): void {
  program.command("purge")
    .description("Delete every message of a mailbox, those in flight included. Asks first.")
    .argument("[mailbox]", "the URL of the mailbox")
    .option("-y, --yes", "do not ask")
    .addHelpText("after", MAILBOXES)
    .addHelpText(
      "after",
      examples(
        ["lastcall purge sqlite:./jobs.db", "asks first"],
        ["lastcall purge sqlite:./jobs.db --yes", "for scripts"],
      ),
    )
    .action(async (
      mailbox: string | undefined,
      { yes = false }: { readonly yes?: boolean },
      command: Command,
    ) => {
      await withMailbox(onlyMailbox(io, mailbox), { create: false }, async (opened) => {
        const { name } = opened;
        await purge(io, command, { mailbox: opened, thing: "message", name, yes });
      });
    });
}
