import { type Command, Option } from "commander";
import { MAX_BATCH, type PeekedMessage } from "../../mod.ts";
import { ageText, parseCount } from "../_duration.ts";
import { CliError } from "../_errors.ts";
import { examples, MAILBOXES } from "../_help.ts";
import type { Io } from "../_io.ts";
import { onlyMailbox, withMailbox } from "../_mailbox.ts";
import { printer } from "../_print.ts";

/** How many messages are shown: an option that several commands have. */
export function limitOption(): Option {
  return new Option("-n, --limit <count>", "how many at the most, the oldest first")
    .argParser(parseCount(1, MAX_BATCH)).default(10);
}

/** `lastcall peek`: looks at messages without taking them. */
export function addPeek(program: Command, io: Io): void {
  program.command("peek")
    .description("Show the oldest messages of a mailbox without taking them.")
    .argument("[mailbox]", "the URL of the mailbox")
    .addOption(limitOption())
    .addHelpText("after", MAILBOXES)
    .addHelpText(
      "after",
      examples(
        ["lastcall peek sqlite:./jobs.db", "the ten oldest"],
        ["lastcall peek sqlite:./jobs.db -n 1 --json", "the oldest, for programs"],
      ),
    )
    .action(async (
      mailbox: string | undefined,
      { limit }: { readonly limit: number },
      command: Command,
    ) => {
      await withMailbox(onlyMailbox(io, mailbox), { create: false }, async (opened) => {
        if (opened.peek === undefined) throw cannotPeek(opened.name);
        printer(io, command).list(await opened.peek(limit), COLUMNS, row, "no messages");
      });
    });
}

/** Some engines can only hand messages over. */
export function cannotPeek(name: string): CliError {
  return new CliError(
    "failed",
    `The engine of mailbox "${name}" shows no message without handing it over: receive it instead`,
  );
}

/** So that a table does not change its shape while messages grow older. */
const AGE_WIDTH = "59 min".length;
const COLUMNS = ["ID", "DELIVERIES", "AGE", "BODY"];

function row({ id, deliveryCount, enqueuedAt, body }: PeekedMessage<unknown>): readonly string[] {
  const age = ageText(Date.now() - enqueuedAt).padEnd(AGE_WIDTH);
  return [id, String(deliveryCount), age, JSON.stringify(body) ?? ""];
}
