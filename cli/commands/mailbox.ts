// `lastcall peek`, `lastcall cancel` and `lastcall purge`.

import { type Command, Option } from "commander";
import type { Mailbox } from "../../mod.ts";
import type { MessageState, PeekedMessage } from "../../src/engine.ts";
import { checkId } from "../../src/mailbox/envelope.ts";
import { asUsage, CliError, usageError } from "../_errors.ts";
import { confirm, type Io } from "../_io.ts";
import { MAILBOXES, onlyMailbox, takeMailbox, withMailbox } from "../_mailbox.ts";
import { examples, limitOption } from "../_options.ts";
import {
  ageText,
  counted,
  detailLines,
  envelopeDetails,
  type Print,
  printer,
  type Row,
  timeText,
} from "../_print.ts";

/** Adds `lastcall peek`, which shows messages without receiving them. */
export function addPeek(program: Command, io: Io): void {
  program.command("peek")
    .description("Show the oldest messages of a mailbox, or one by its id, without receiving them.")
    .argument("[mailbox]", "URL of the mailbox")
    .addOption(limitOption())
    .addOption(
      new Option("--id <id>", "show all details of the message with this id").conflicts("limit"),
    )
    .addHelpText("after", MAILBOXES)
    .addHelpText(
      "after",
      examples(
        ["lastcall peek sqlite:./jobs.db", "the ten oldest"],
        ["lastcall peek sqlite:./jobs.db -n 1 --json", "the oldest, as JSON"],
        ["lastcall peek sqlite:./jobs.db --id order-18", "one message, with its headers"],
      ),
    )
    .action(async (
      url: string | undefined,
      { limit, id }: { readonly limit: number; readonly id?: string },
      command: Command,
    ) => {
      const mailbox = onlyMailbox(io, url);
      if (id !== undefined) asUsage(() => checkId(id));
      const print = printer(io, command);
      await withMailbox(mailbox, { create: false }, async (mailbox) => {
        if (id !== undefined) return await showMessage(mailbox, id, print);
        const messages = await peek(mailbox, limit);
        const { columns, row } = messageTable(messages);
        print.list(messages, columns, row, "no messages");
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

/** The states in words. */
const STATES: Readonly<Record<MessageState, string>> = {
  waiting: "waiting",
  delayed: "delayed",
  inFlight: "in flight",
};

/** The widest age, so that the table keeps its shape while messages grow older. */
const AGE_WIDTH = "59 min".length;

/** Returns the columns of a table of messages. State, key, priority and the number of finished steps are shown where a message has one. */
function messageTable(messages: readonly PeekedMessage<unknown>[]): {
  readonly columns: Row;
  readonly row: (message: PeekedMessage<unknown>) => Row;
} {
  type Column = readonly [name: string, cell: (message: PeekedMessage<unknown>) => string];
  const optional: readonly Column[] = [
    ["STATE", ({ state }) => state === undefined ? "" : STATES[state]],
    ["KEY", ({ key = "" }) => key],
    ["PRIORITY", ({ priority }) => `${priority ?? ""}`],
    ["STEPS", ({ steps = [] }) => `${steps.length || ""}`],
  ];
  const shown: readonly Column[] = [
    ["ID", ({ id }) => id],
    ...optional.filter(([, cell]) => messages.some((message) => cell(message) !== "")),
    ["DELIVERIES", ({ deliveryCount }) => String(deliveryCount)],
    ["AGE", ({ enqueuedAt }) => ageText(Date.now() - enqueuedAt).padEnd(AGE_WIDTH)],
    ["BODY", ({ body }) => JSON.stringify(body) ?? ""],
  ];
  return {
    columns: shown.map(([name]) => name),
    row: (message) => shown.map(([, cell]) => cell(message)),
  };
}

async function showMessage(mailbox: Mailbox<unknown>, id: string, print: Print): Promise<void> {
  requireLookup(mailbox, "find messages");
  const message = await mailbox.get(id);
  if (message === undefined) throw notFound([id]);
  const { state } = message;
  const text = detailLines([
    ["id", message.id],
    ["state", state && STATES[state]],
    ["deliveries", String(message.deliveryCount)],
    ["sent at", timeText(message.enqueuedAt)],
    ...envelopeDetails(message),
    ["body", JSON.stringify(message.body)],
  ]);
  print.result(message, text);
}

/** Adds `lastcall cancel`, which deletes messages by their ids. */
export function addCancel(program: Command, io: Io): void {
  program.command("cancel")
    .description(
      "Delete messages by their ids, also delayed ones. A handler that runs is cancelled, on any " +
        "machine. Exit code 1 when a message does not exist.",
    )
    .usage("[options] [mailbox] <ids...>")
    .argument("[mailbox]", "URL of the mailbox")
    .argument("[ids...]", "ids of the messages, as peek shows them")
    .addHelpText("after", MAILBOXES)
    .addHelpText(
      "after",
      examples(
        ["lastcall cancel sqlite:./jobs.db order-18", "one message"],
        ["lastcall cancel sqlite:./jobs.db order-18 --json", "as JSON"],
      ),
    )
    .action(async (
      first: string | undefined,
      others: readonly string[],
      _options: unknown,
      command: Command,
    ) => {
      const { url, rest: ids } = takeMailbox(io, [first, ...others]);
      if (ids.length === 0) throw usageError("No id: give one that `lastcall peek` shows");
      asUsage(() => ids.forEach(checkId));
      const print = printer(io, command);
      await withMailbox(url, { create: false }, async (mailbox) => {
        requireLookup(mailbox, "cancel messages");
        const missing: string[] = [];
        for (const id of ids) {
          const cancelled = await mailbox.cancel(id);
          print.result({ id, cancelled }, cancelled ? `cancelled ${id}` : `not found ${id}`);
          if (!cancelled) missing.push(id);
        }
        if (missing.length > 0) throw notFound(missing);
      });
    });
}

function requireLookup({ name, capabilities }: Mailbox<unknown>, what: string): void {
  if (capabilities.lookup) return;
  throw new CliError("failed", `The engine of mailbox "${name}" cannot ${what} by id`);
}

function notFound(ids: readonly string[]): CliError {
  return new CliError("not_found", `No message has the id ${ids.join(", ")}`);
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
