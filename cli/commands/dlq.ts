import { type Command, Option } from "commander";
import { oneLine } from "../../src/terminal/text.ts";
import { type DeadLetter, MAX_BATCH, redrive } from "../../mod.ts";
import { lettersOf, peekLetters } from "../_dead_letters.ts";
import { ageText, parseCount } from "../_duration.ts";
import { CliError, interruptedBy, usageError } from "../_errors.ts";
import { examples, MAILBOXES } from "../_help.ts";
import { interruption } from "../_interruption.ts";
import type { Io } from "../_io.ts";
import { onlyMailbox, takeMailbox, withMailbox } from "../_mailbox.ts";
import { counted, printer } from "../_print.ts";
import { progress } from "../_progress.ts";
import { purge } from "../_purge.ts";
import { limitOption } from "./peek.ts";

/** `lastcall dlq`: the messages that failed for good. */
export function addDlq(program: Command, io: Io): void {
  const dlq = program.command("dlq")
    .description("Look at dead letters, the messages that failed for good, and send them back.")
    .helpCommand(false)
    .addHelpText("after", MAILBOXES)
    .addHelpText(
      "after",
      examples(
        ["lastcall dlq list sqlite:./jobs.db", "what failed, and why"],
        ["lastcall dlq show sqlite:./jobs.db order-17", "all that is known of one"],
        ["lastcall dlq redrive sqlite:./jobs.db", "give all another chance"],
      ),
    );
  addList(dlq, io);
  addShow(dlq, io);
  addRedrive(dlq, io);
  addPurge(dlq, io);
}

function addList(dlq: Command, io: Io): void {
  dlq.command("list")
    .description("List the oldest dead letters and why they are there.")
    .argument("[mailbox]", "the URL of the mailbox they come from")
    .addOption(limitOption())
    .addHelpText(
      "after",
      examples(
        ["lastcall dlq list sqlite:./jobs.db", "the ten oldest"],
        ["lastcall dlq list sqlite:./jobs.db -n 100 --json", "more, for programs"],
      ),
    )
    .action(async (
      mailbox: string | undefined,
      { limit }: { readonly limit: number },
      command: Command,
    ) => {
      await withMailbox(onlyMailbox(io, mailbox), { create: false }, async (opened) => {
        const letters = await peekLetters(lettersOf(opened), limit);
        printer(io, command).list(letters, COLUMNS, row, "no dead letters");
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
    .description("Show everything that is known of one dead letter.")
    .usage("[options] [mailbox] <id>")
    .argument("[mailbox]", "the URL of the mailbox it comes from")
    .argument("[id]", "its id, as list shows it")
    .addHelpText("after", examples(["lastcall dlq show sqlite:./jobs.db order-17", "this one"]))
    .action(async (
      mailbox: string | undefined,
      second: string | undefined,
      _options: unknown,
      command: Command,
    ) => {
      const { url, rest: [id, ...more] } = takeMailbox(io, [mailbox, second]);
      if (id === undefined) {
        throw usageError("Which one? Give the id, as `lastcall dlq list` shows it");
      }
      if (more.length > 0) throw usageError("One at a time: give one id");
      await withMailbox(url, { create: false }, async (opened) => {
        const letters = await peekLetters(lettersOf(opened));
        const letter = letters.find((it) => it.id === id);
        if (letter === undefined) {
          throw letters.length < MAX_BATCH ? notFound([id]) : new CliError(
            "not_found",
            `None of the ${MAX_BATCH} oldest dead letters has the id ${id}, and no others can be seen`,
          );
        }
        printer(io, command).result(letter, describe(letter));
      });
    });
}

function describe(letter: DeadLetter<unknown>): string {
  const time = (ms: number) => new Date(ms).toISOString();
  const parts: readonly (readonly [string, string | undefined])[] = [
    ["id", letter.id],
    ["reason", letter.reason],
    ["error", letter.error],
    ["deliveries", String(letter.deliveryCount)],
    ["sent at", time(letter.enqueuedAt)],
    ["dead since", time(letter.deadAt)],
    ["reply to", letter.replyTo],
    ["checkpoint", JSON.stringify(letter.checkpoint)],
    ["body", "body" in letter ? JSON.stringify(letter.body) : undefined],
    ["unreadable", letter.raw],
  ];
  return parts.filter(([, value]) => value !== undefined)
    .map(([name, value = ""]) => `${name.padEnd(10)}  ${oneLine(value)}`).join("\n");
}

interface RedriveChoice {
  readonly reason?: readonly string[];
  readonly limit?: number;
}

function addRedrive(dlq: Command, io: Io): void {
  dlq.command("redrive")
    .description("Send dead letters back to where they came from, with attempts counted anew.")
    .argument("[mailbox]", "the URL of the mailbox they come from")
    .argument("[ids...]", "which ones; all when none is given")
    .option("--reason <reason...>", "only those with one of these reasons")
    .addOption(new Option("--limit <count>", "how many at the most").argParser(parseCount(1)))
    .addHelpText(
      "after",
      examples(
        ["lastcall dlq redrive sqlite:./jobs.db", "all of them"],
        ["lastcall dlq redrive sqlite:./jobs.db order-17", "this one"],
        ["lastcall dlq redrive sqlite:./jobs.db --reason max_deliveries", "by their reason"],
        ["lastcall dlq redrive sqlite:./jobs.db --limit 1", "the oldest, to try"],
      ),
    )
    .action(async (
      mailbox: string | undefined,
      others: readonly string[],
      choice: RedriveChoice,
      command: Command,
    ) => {
      const { url, rest } = takeMailbox(io, [mailbox, ...others]);
      const missing = new Set(rest);
      const print = printer(io, command);
      const bar = progress(io, "redriving", print.json);
      const interrupted = interruption(io);
      await withMailbox(url, { create: false }, async (opened) => {
        const total = await lettersOf(opened).letters.approximateCount();
        let seen = 0;
        const only = ({ id, reason }: DeadLetter<unknown>) => {
          // Letters that were looked at are given back on the way out.
          interrupted.signal.throwIfAborted();
          bar.to(++seen, total);
          if (choice.reason !== undefined && !choice.reason.includes(reason)) return false;
          return missing.delete(id) || rest.length === 0;
        };
        const maxMessages = Math.min(choice.limit ?? Infinity, missing.size || Infinity);
        let redriven = 0;
        const onRedriven = () => void redriven++;
        try {
          await redrive(opened, { only, maxMessages, onRedriven });
        } catch (error) {
          if (print.json) print.result({ redriven }, "");
          throw interruptedBy(error, `sent back before it: ${counted(redriven, "dead letter")}`);
        } finally {
          bar.end();
          interrupted.end();
        }
        print.result({ redriven }, `sent ${counted(redriven, "dead letter")} back`);
        const limited = redriven === choice.limit;
        if (missing.size > 0 && !limited) throw notFound([...missing]);
      });
    });
}

function addPurge(dlq: Command, io: Io): void {
  dlq.command("purge")
    .description("Delete every dead letter of a mailbox. Asks first.")
    .argument("[mailbox]", "the URL of the mailbox they come from")
    .option("-y, --yes", "do not ask")
    .addHelpText("after", examples(["lastcall dlq purge sqlite:./jobs.db --yes", "for scripts"]))
    .action(async (
      mailbox: string | undefined,
      { yes = false }: { readonly yes?: boolean },
      command: Command,
    ) => {
      await withMailbox(onlyMailbox(io, mailbox), { create: false }, async (opened) => {
        const { letters: mailbox } = lettersOf(opened);
        const { name } = opened;
        await purge(io, command, { mailbox, thing: "dead letter", name, yes });
      });
    });
}

function notFound(ids: readonly string[]): CliError {
  return new CliError("not_found", `No dead letter has the id ${ids.join(", ")}`);
}
