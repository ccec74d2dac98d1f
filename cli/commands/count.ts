import type { Command } from "commander";
import { examples, MAILBOXES } from "../_help.ts";
import type { Io } from "../_io.ts";
import { onlyMailbox, withMailbox } from "../_mailbox.ts";
import { counted, printer } from "../_print.ts";

/** `lastcall count`: how full a mailbox is. */
export function addCount(program: Command, io: Io): void {
  program.command("count")
    .description("Count the messages of a mailbox, those in flight and delayed ones included.")
    .argument("[mailbox]", "the URL of the mailbox")
    .addHelpText("after", MAILBOXES)
    .addHelpText(
      "after",
      examples(
        ["lastcall count sqlite:./jobs.db", "for people"],
        ["lastcall count sqlite:./jobs.db --json", "for programs"],
      ),
    )
    .action(async (mailbox: string | undefined, _options: unknown, command: Command) => {
      await withMailbox(onlyMailbox(io, mailbox), { create: false }, async (opened) => {
        const messages = await opened.approximateCount();
        const deadLetters = await opened.deadLetters?.approximateCount() ?? 0;
        printer(io, command).result(
          { messages, deadLetters },
          `${counted(messages, "message")}, ${counted(deadLetters, "dead letter")}`,
        );
      });
    });
}
