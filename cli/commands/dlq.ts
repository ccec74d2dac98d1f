// `lastcall dlq`: lists, shows, redrives and deletes dead letters.

import { type Command, Option } from "commander";
import { type DeadLetter, type Mailbox, redrive } from "../../mod.ts";
import { MAX_BATCH } from "../../src/engine.ts";
import { checkId } from "../../src/mailbox/envelope.ts";
import { asUsage, CliError, usageError, withProgress } from "../_errors.ts";
import { confirm, interruption, type Io } from "../_io.ts";
import { progress } from "../_live.ts";
import { MAILBOXES, onlyMailbox, takeMailbox, withMailbox } from "../_mailbox.ts";
import { examples, limitOption, parseCount, skipOption } from "../_options.ts";
import { ageText, counted, detailLines, envelopeDetails, printer, timeText } from "../_print.ts";
import { forEachId, notFound, peek, purge, requireLookup, takeIds } from "./mailbox.ts";

/** Adds `lastcall dlq` with its subcommands. */
export function addDlq(program: Command, io: Io): void {
  const dlq = program.command("dlq")
    .description("List, show, redrive and delete dead letters: messages that failed permanently.")
    .helpCommand(false)
    .addHelpText("after", MAILBOXES)
    .addHelpText(
      "after",
      examples(
        ["lastcall dlq list sqlite:./jobs.db", "the oldest, with reasons"],
        ["lastcall dlq show sqlite:./jobs.db order-17", "all details of one"],
        ["lastcall dlq redrive sqlite:./jobs.db", "send all back to the mailbox"],
        ["lastcall dlq delete sqlite:./jobs.db order-17", "delete one"],
      ),
    );
  addList(dlq, io);
  addShow(dlq, io);
  addRedrive(dlq, io);
  addDelete(dlq, io);
  addPurge(dlq, io);
}

function addList(dlq: Command, io: Io): void {
  dlq.command("list")
    .description("List the oldest dead letters with their reasons.")
    .argument("[mailbox]", "URL of the mailbox that the messages were sent to")
    .addOption(limitOption())
    .addOption(skipOption())
    .addHelpText(
      "after",
      examples(
        ["lastcall dlq list sqlite:./jobs.db", "the ten oldest"],
        ["lastcall dlq list sqlite:./jobs.db -n 100 --json", "100, as JSON"],
        ["lastcall dlq list sqlite:./jobs.db -n 100 --skip 100", "the second hundred"],
      ),
    )
    .action(async (
      url: string | undefined,
      { limit, skip }: { readonly limit: number; readonly skip: number },
      command: Command,
    ) => {
      await withMailbox(onlyMailbox(io, url), { create: false }, async (mailbox) => {
        const letters = await peek(deadLettersOf(mailbox), limit, skip);
        const bodies = letters.map(({ body }) => body);
        printer(io, command).list(bodies, COLUMNS, row, "no dead letters");
      });
    });
}

const COLUMNS = ["ID", "DELIVERIES", "DEAD FOR", "REASON", "ERROR"];

function row(letter: DeadLetter<unknown>): readonly string[] {
  const { id, deliveryCount, deadAt, reason, error = "" } = letter;
  return [id, String(deliveryCount), ageText(Date.now() - deadAt), reason, error];
}

function addShow(dlq: Command, io: Io): void {
  dlq.command("show")
    .description("Show all details of one dead letter.")
    .usage("[options] [mailbox] <id>")
    .argument("[mailbox]", "URL of the mailbox that the message was sent to")
    .argument("[id]", "id of the message, as list shows it")
    .addHelpText("after", examples(["lastcall dlq show sqlite:./jobs.db order-17", "by id"]))
    .action(async (
      first: string | undefined,
      second: string | undefined,
      _options: unknown,
      command: Command,
    ) => {
      const { url, rest: [id, ...more] } = takeMailbox(io, [first, second]);
      if (id === undefined) throw usageError("No id: give one that `lastcall dlq list` shows");
      if (more.length > 0) throw usageError("Too many arguments: give one id");
      await withMailbox(url, { create: false }, async (mailbox) => {
        const letter = await find(deadLettersOf(mailbox), id);
        if (letter === undefined) throw notFound([id], "dead letter");
        printer(io, command).result(letter, describe(letter));
      });
    });
}

/** Finds a dead letter by the id of its message. Without `lookup` it looks through all of them. */
async function find(
  mailbox: Mailbox<DeadLetter<unknown>>,
  id: string,
): Promise<DeadLetter<unknown> | undefined> {
  if (mailbox.capabilities.lookup) return (await mailbox.get(id))?.body;
  for (let skip = 0;; skip += MAX_BATCH) {
    const letters = await peek(mailbox, MAX_BATCH, skip);
    const found = letters.find(({ body }) => body.id === id);
    if (found !== undefined || letters.length === 0) return found?.body;
  }
}

function describe(letter: DeadLetter<unknown>): string {
  return detailLines([
    ["id", letter.id],
    ["reason", letter.reason],
    ["error", letter.error],
    ["deliveries", String(letter.deliveryCount)],
    ["sent at", timeText(letter.enqueuedAt)],
    ["dead since", timeText(letter.deadAt)],
    ...envelopeDetails(letter),
    ["body", "body" in letter ? JSON.stringify(letter.body) : undefined],
    ["unreadable", letter.raw],
  ]);
}

interface RedriveFlags {
  readonly reason?: readonly string[];
  readonly limit?: number;
}

function addRedrive(dlq: Command, io: Io): void {
  dlq.command("redrive")
    .description("Send dead letters back to their mailbox. Their attempts are counted from zero.")
    .argument("[mailbox]", "URL of the mailbox that the messages were sent to")
    .argument("[ids...]", "only these ids (default: all)")
    .option("--reason <reason...>", "only dead letters with one of these reasons")
    .addOption(new Option("--limit <count>", "redrive at most this many").argParser(parseCount(1)))
    .addHelpText(
      "after",
      examples(
        ["lastcall dlq redrive sqlite:./jobs.db", "all"],
        ["lastcall dlq redrive sqlite:./jobs.db order-17", "one, by id"],
        ["lastcall dlq redrive sqlite:./jobs.db --reason max_deliveries", "by reason"],
        ["lastcall dlq redrive sqlite:./jobs.db --limit 1", "the oldest, as a trial"],
      ),
    )
    .action(async (
      first: string | undefined,
      others: readonly string[],
      flags: RedriveFlags,
      command: Command,
    ) => {
      const { url, rest: ids } = takeMailbox(io, [first, ...others]);
      asUsage(() => ids.forEach(checkId));
      const missing = new Set(ids);
      const print = printer(io, command);
      const bar = progress(io, "redriving", print.json);
      const interrupted = interruption(io);
      await withMailbox(url, { create: false }, async (mailbox) => {
        const all = ids.length === 0;
        const total = all ? await deadLettersOf(mailbox).approximateCount() : ids.length;
        let seen = 0;
        const only = ({ reason }: DeadLetter<unknown>) => {
          // redrive() releases the dead letters that it holds when this throws.
          interrupted.signal.throwIfAborted();
          bar.to(++seen, total);
          return flags.reason === undefined || flags.reason.includes(reason);
        };
        let redriven = 0;
        const onRedriven = ({ id }: DeadLetter<unknown>) => {
          redriven++;
          missing.delete(id);
        };
        const options = { only, maxMessages: flags.limit ?? Infinity, onRedriven };
        try {
          await redrive(mailbox, { ...options, ...(!all && { ids: [...missing] }) });
        } catch (error) {
          if (print.json) print.result({ redriven }, "");
          throw withProgress(error, `sent back before that: ${counted(redriven, "dead letter")}`);
        } finally {
          bar.end();
          interrupted.end();
        }
        print.result({ redriven }, `sent ${counted(redriven, "dead letter")} back`);
        const limited = redriven === flags.limit;
        if (missing.size > 0 && !limited) throw notFound([...missing], "dead letter");
      });
    });
}

function addDelete(dlq: Command, io: Io): void {
  dlq.command("delete")
    .description(
      "Delete dead letters by their ids. Asks first. Exit code 1 when one does not exist.",
    )
    .usage("[options] [mailbox] <ids...>")
    .argument("[mailbox]", "URL of the mailbox that the messages were sent to")
    .argument("[ids...]", "ids of the messages, as list shows them")
    .option("-y, --yes", "do not ask")
    .addHelpText(
      "after",
      examples(
        ["lastcall dlq delete sqlite:./jobs.db order-17", "asks first"],
        ["lastcall dlq delete sqlite:./jobs.db order-17 --yes", "does not ask, for scripts"],
      ),
    )
    .action(async (
      first: string | undefined,
      others: readonly string[],
      { yes = false }: { readonly yes?: boolean },
      command: Command,
    ) => {
      const { url, ids } = takeIds(io, [first, ...others], "lastcall dlq list");
      await withMailbox(url, { create: false }, async (mailbox) => {
        const letters = deadLettersOf(mailbox);
        requireLookup(letters, "delete dead letters");
        const found = counted(ids.length, "dead letter");
        await confirm(io, `Delete ${found} of mailbox "${mailbox.name}"?`, yes);
        const words = { done: "deleted", thing: "dead letter" };
        await forEachId(ids, printer(io, command), words, (id) => letters.cancel(id));
      });
    });
}

function addPurge(dlq: Command, io: Io): void {
  dlq.command("purge")
    .description("Delete all dead letters of a mailbox. Asks first.")
    .argument("[mailbox]", "URL of the mailbox that the messages were sent to")
    .option("-y, --yes", "do not ask")
    .addHelpText(
      "after",
      examples(["lastcall dlq purge sqlite:./jobs.db --yes", "does not ask, for scripts"]),
    )
    .action(async (
      url: string | undefined,
      { yes = false }: { readonly yes?: boolean },
      command: Command,
    ) => {
      await withMailbox(onlyMailbox(io, url), { create: false }, async (opened) => {
        const { name } = opened;
        const mailbox = deadLettersOf(opened);
        await purge(io, command, { mailbox, thing: "dead letter", name, yes });
      });
    });
}

function deadLettersOf({ name, deadLetters }: Mailbox<unknown>): Mailbox<DeadLetter<unknown>> {
  if (deadLetters !== undefined) return deadLetters;
  throw new CliError("failed", `The engine of mailbox "${name}" keeps no dead letters`);
}
