// `lastcall peek`, `lastcall cancel`, `lastcall deliver` and `lastcall purge`.

import { type Command, Option } from "commander";
import type { Mailbox } from "../../mod.ts";
import type { MessageState, PeekedMessage } from "../../src/engine.ts";
import { checkId } from "../../src/mailbox/envelope.ts";
import { asUsage, CliError, usageError } from "../_errors.ts";
import { confirm, type Io } from "../_io.ts";
import { MAILBOXES, onlyMailbox, takeMailbox, withMailbox } from "../_mailbox.ts";
import { examples, limitOption, skipOption } from "../_options.ts";
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
    .addOption(skipOption())
    .addOption(
      new Option("--id <id>", "show all details of the message with this id")
        .conflicts(["limit", "skip"]),
    )
    .addHelpText("after", MAILBOXES)
    .addHelpText(
      "after",
      examples(
        ["lastcall peek sqlite:./jobs.db", "the ten oldest"],
        ["lastcall peek sqlite:./jobs.db -n 1 --json", "the oldest, as JSON"],
        ["lastcall peek sqlite:./jobs.db -n 100 --skip 100", "the second hundred"],
        ["lastcall peek sqlite:./jobs.db --id order-18", "one message, with its headers"],
      ),
    )
    .action(async (
      url: string | undefined,
      { limit, skip, id }: { readonly limit: number; readonly skip: number; readonly id?: string },
      command: Command,
    ) => {
      const mailbox = onlyMailbox(io, url);
      if (id !== undefined) asUsage(() => checkId(id));
      const print = printer(io, command);
      await withMailbox(mailbox, { create: false }, async (mailbox) => {
        if (id !== undefined) return await showMessage(mailbox, id, print);
        const messages = await peek(mailbox, limit, skip);
        const { columns, row } = messageTable(messages);
        print.list(messages, columns, row, "no messages");
      });
    });
}

/**
 * Returns the oldest messages after the first `skip`, without receiving them.
 *
 * @throws {CliError} where the engine cannot do that.
 */
export async function peek<B>(
  mailbox: Mailbox<B>,
  limit: number,
  skip = 0,
): Promise<readonly PeekedMessage<B>[]> {
  if (mailbox.peek !== undefined) return await mailbox.peek(limit, { skip });
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

/** A command that does something to messages by their ids. */
interface ByIds {
  readonly name: string;
  readonly description: string;
  readonly examples: readonly (readonly [command: string, what: string])[];
  /** What the engine cannot do without `lookup`: `cancel messages`. */
  readonly what: string;
  readonly act: (mailbox: Mailbox<unknown>, id: string) => Promise<boolean>;
  readonly words: ByIdWords;
}

/** How the result for each id is told. */
export interface ByIdWords {
  /** Of an id for which it was done, also the member of the JSON: `cancelled`. */
  readonly done: string;
  /** Of any other id. @default {"not found"} */
  readonly missing?: string;
  /** What has no such id: `message`. */
  readonly thing: string;
}

/** Adds `lastcall cancel`, which deletes messages by their ids. */
export function addCancel(program: Command, io: Io): void {
  addByIds(program, io, {
    name: "cancel",
    description:
      "Delete messages by their ids, also delayed ones. A handler that runs is cancelled, on any " +
      "machine. Exit code 1 when a message does not exist.",
    examples: [
      ["lastcall cancel sqlite:./jobs.db order-18", "one message"],
      ["lastcall cancel sqlite:./jobs.db order-18 --json", "as JSON"],
    ],
    what: "cancel messages",
    act: (mailbox, id) => mailbox.cancel(id),
    words: { done: "cancelled", thing: "message" },
  });
}

/** Adds `lastcall deliver`, which ends the delays of messages. */
export function addDeliver(program: Command, io: Io): void {
  addByIds(program, io, {
    name: "deliver",
    description:
      "Deliver delayed messages now, by their ids: messages that were sent with a delay, or that " +
      "wait for their retry. Exit code 1 when a message is not delayed.",
    examples: [
      ["lastcall deliver sqlite:./jobs.db order-18", "one message"],
      ["lastcall deliver sqlite:./jobs.db order-18 --json", "as JSON"],
    ],
    what: "deliver messages",
    act: (mailbox, id) => mailbox.deliverNow(id),
    words: { done: "delivered", missing: "not delayed", thing: "delayed message" },
  });
}

function addByIds(program: Command, io: Io, command: ByIds): void {
  program.command(command.name)
    .description(command.description)
    .usage("[options] [mailbox] <ids...>")
    .argument("[mailbox]", "URL of the mailbox")
    .argument("[ids...]", "ids of the messages, as peek shows them")
    .addHelpText("after", MAILBOXES)
    .addHelpText("after", examples(...command.examples))
    .action(async (
      first: string | undefined,
      others: readonly string[],
      _options: unknown,
      self: Command,
    ) => {
      const { url, ids } = takeIds(io, [first, ...others], "lastcall peek");
      await withMailbox(url, { create: false }, async (mailbox) => {
        requireLookup(mailbox, command.what);
        const act = (id: string) => command.act(mailbox, id);
        await forEachId(ids, printer(io, self), command.words, act);
      });
    });
}

/** Returns the URL of the mailbox and the ids, of which there must be one. */
export function takeIds(
  io: Io,
  given: readonly (string | undefined)[],
  source: string,
): { readonly url: string; readonly ids: readonly string[] } {
  const { url, rest: ids } = takeMailbox(io, given);
  if (ids.length === 0) throw usageError(`No id: give one that \`${source}\` shows`);
  asUsage(() => ids.forEach(checkId));
  return { url, ids };
}

/** Does something for each id, and prints each result. Throws at the end when some were missing. */
export async function forEachId(
  ids: readonly string[],
  print: Print,
  { done, missing = "not found", thing }: ByIdWords,
  act: (id: string) => Promise<boolean>,
): Promise<void> {
  const absent: string[] = [];
  for (const id of ids) {
    const isDone = await act(id);
    print.result({ id, [done]: isDone }, `${isDone ? done : missing} ${id}`);
    if (!isDone) absent.push(id);
  }
  if (absent.length > 0) throw notFound(absent, thing);
}

/** Throws where the engine cannot do something by ids. */
export function requireLookup({ name, capabilities }: Mailbox<unknown>, what: string): void {
  if (capabilities.lookup) return;
  throw new CliError("failed", `The engine of mailbox "${name}" cannot ${what} by id`);
}

/** The error of ids that no message has. */
export function notFound(ids: readonly string[], thing = "message"): CliError {
  return new CliError("not_found", `No ${thing} has the id ${ids.join(", ")}`);
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
