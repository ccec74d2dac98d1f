// `lastcall peek`, `lastcall count` and `lastcall purge`.

import type { Command } from "commander";
import type { Mailbox } from "../../mod.ts";
import type { PeekedMessage } from "../../src/engine.ts";
import { CliError } from "../_errors.ts";
import { confirm, type Io } from "../_io.ts";
import { MAILBOXES, onlyMailbox, withMailbox } from "../_mailbox.ts";
import { examples, limitOption } from "../_options.ts";
import { ageText, counted, printer } from "../_print.ts";

/** Adds `lastcall peek`, which shows messages without receiving them. */
export function addPeek(program: Command, io: Io): void {
  program.command("peek")
    .description("Show the oldest messages of a mailbox without receiving them.")
    .argument("[mailbox]", "URL of the mailbox")
    .addOption(limitOption())
    .addHelpText("after", MAILBOXES)
    .addHelpText(
      "after",
      examples(
        ["lastcall peek sqlite:./jobs.db", "the ten oldest"],
        ["lastcall peek sqlite:./jobs.db -n 1 --json", "the oldest, as JSON"],
      ),
    )
    .action(async (
      url: string | undefined,
      { limit }: { readonly limit: number },
      command: Command,
    ) => {
      await withMailbox(onlyMailbox(io, url), { create: false }, async (mailbox) => {
        const messages = await peek(mailbox, limit);
        printer(io, command).list(messages, COLUMNS, row, "no messages");
      });
    });
}

/**
 * Returns the oldest messages without receiving them.
 *
 * @throws {CliError} where the engine cannot do that.
 */
export async function peek<B>(
  mailbox: Mailbox<B>,
  limit: number,
): Promise<readonly PeekedMessage<B>[]> {
  if (mailbox.peek !== undefined) return await mailbox.peek(limit);
  throw new CliError(
    "failed",
    `The engine of mailbox "${mailbox.name}" cannot show messages without receiving them`,
  );
}

const COLUMNS = ["ID", "DELIVERIES", "AGE", "BODY"];
/** The widest age, so that the table keeps its shape while messages grow older. */
const AGE_WIDTH = "59 min".length;

function row({ id, deliveryCount, enqueuedAt, body }: PeekedMessage<unknown>): readonly string[] {
  const age = ageText(Date.now() - enqueuedAt).padEnd(AGE_WIDTH);
  return [id, String(deliveryCount), age, JSON.stringify(body) ?? ""];
}

/** Adds `lastcall count`, which counts messages and dead letters. */
export function addCount(program: Command, io: Io): void {
  program.command("count")
    .description("Count the messages of a mailbox, including those in flight and delayed.")
    .argument("[mailbox]", "URL of the mailbox")
    .addHelpText("after", MAILBOXES)
    .addHelpText(
      "after",
      examples(
        ["lastcall count sqlite:./jobs.db", "as text"],
        ["lastcall count sqlite:./jobs.db --json", "as JSON"],
      ),
    )
    .action(async (url: string | undefined, _options: unknown, command: Command) => {
      await withMailbox(onlyMailbox(io, url), { create: false }, async (mailbox) => {
        const messages = await mailbox.approximateCount();
        const deadLetters = await mailbox.deadLetters?.approximateCount() ?? 0;
        printer(io, command).result(
          { messages, deadLetters },
          `${counted(messages, "message")}, ${counted(deadLetters, "dead letter")}`,
        );
      });
    });
}

/** Adds `lastcall purge`, which deletes all messages. */
export function addPurge(program: Command, io: Io): void {
  program.command("purge")
    .description("Delete all messages of a mailbox, including those in flight. Asks first.")
    .argument("[mailbox]", "URL of the mailbox")
    .option("-y, --yes", "do not ask")
    .addHelpText("after", MAILBOXES)
    .addHelpText(
      "after",
      examples(
        ["lastcall purge sqlite:./jobs.db", "asks first"],
        ["lastcall purge sqlite:./jobs.db --yes", "does not ask, for scripts"],
      ),
    )
    .action(async (
      url: string | undefined,
      { yes = false }: { readonly yes?: boolean },
      command: Command,
    ) => {
      await withMailbox(onlyMailbox(io, url), { create: false }, async (mailbox) => {
        const { name } = mailbox;
        await purge(io, command, { mailbox, thing: "message", name, yes });
      });
    });
}

/** What {@linkcode purge} deletes. */
export interface Purge {
  readonly mailbox: Pick<Mailbox<unknown>, "approximateCount" | "purge">;
  /** What one of its messages is called: `message` or `dead letter`. */
  readonly thing: string;
  /** The name of the mailbox in the question. */
  readonly name: string;
  /** True to skip the question. */
  readonly yes: boolean;
}

/** Deletes all messages after the user has confirmed it. */
export async function purge(io: Io, command: Command, what: Purge): Promise<void> {
  const { mailbox, thing, name, yes } = what;
  const found = counted(await mailbox.approximateCount(), thing);
  await confirm(io, `Delete ${found} of mailbox "${name}"?`, yes);
  const deleted = await mailbox.purge();
  printer(io, command).result({ deleted }, `deleted ${counted(deleted, thing)}`);
}
