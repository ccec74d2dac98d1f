import { type Command, Option } from "commander";
import { isMailboxError, type Mailbox, type SendOptions, systemClock } from "../../mod.ts";
import { batches } from "../_batches.ts";
import { parseDuration } from "../_duration.ts";
import { interruptedBy, usageError } from "../_errors.ts";
import { examples, MAILBOXES } from "../_help.ts";
import { interruption } from "../_interruption.ts";
import type { Io } from "../_io.ts";
import { takeMailbox, withMailbox } from "../_mailbox.ts";
import { counted, type Print, printer } from "../_print.ts";
import { progress } from "../_progress.ts";

/** What is sent in one call. */
const BATCH = 500;
/** How long to wait for room in a mailbox that is full. */
const FULL_PAUSE_MS = 200;

interface Options {
  readonly text?: boolean;
  readonly delay?: number;
  readonly id?: string;
  readonly replyTo?: string;
}

/** `lastcall send`: puts messages into a mailbox. */
export function addSend(program: Command, io: Io): void {
  program.command("send")
    .description(
      "Send messages: bodies as arguments, or one JSON value a line from standard input.",
    )
    .argument("[mailbox]", "the URL of the mailbox")
    .argument("[bodies...]", "each one JSON value; - reads standard input")
    .option("--text", "bodies are text and not JSON")
    .addOption(
      new Option("--delay <time>", "stay hidden for so long, as 30s").argParser(parseDuration),
    )
    .option("--id <id>", "an id of your own; while a message has it, another is not stored")
    .option("--reply-to <name>", "the mailbox that replies go to")
    .addHelpText("after", MAILBOXES)
    .addHelpText(
      "after",
      examples(
        [`lastcall send sqlite:./jobs.db '{"dish":"soup"}'`, "one message"],
        ["lastcall send sqlite:./jobs.db --text hello world", "two texts"],
        [`lastcall send sqlite:./jobs.db '{}' --delay 5m`, "hidden for five minutes"],
        ["lastcall send sqlite:./jobs.db < orders.jsonl", "a file, one message a line"],
      ),
    )
    .action(async (
      first: string | undefined,
      others: readonly string[],
      options: Options,
      command: Command,
    ) => {
      const { url, rest } = takeMailbox(io, [first, ...others]);
      const streamed = rest.length === 0 || (rest.length === 1 && rest[0] === "-");
      if (streamed && rest.length === 0 && io.typed) {
        throw usageError(
          "Nothing to send: give bodies as arguments, or pipe one JSON value a line",
        );
      }
      if (options.id !== undefined && (streamed || rest.length > 1)) {
        throw usageError("--id names one message: give exactly one body with it");
      }
      if (options.id === "") {
        throw usageError("An id must not be empty: leave --id out for a new one");
      }
      const print = printer(io, command);
      const read = (text: string, where: string, advice: string) =>
        options.text ? text : parseBody(text, where, advice);
      const bodies = streamed ? [] : rest.map((text, at) => read(text, `Body ${at + 1}`, QUOTE));
      await withMailbox(url, { create: true }, async (mailbox) => {
        if (streamed) await sendLines(mailbox, io, print, options, read);
        else await sendBodies(mailbox, bodies, print, options);
      });
    });
}

async function sendBodies(
  mailbox: Mailbox<unknown>,
  bodies: readonly unknown[],
  print: Print,
  options: Options,
): Promise<void> {
  const duplicates = new Set<string>();
  const onDuplicate = (id: string) => void duplicates.add(id);
  const ids = bodies.length === 1
    ? [await mailbox.send(bodies[0], { ...sendOptions(options), onDuplicate })]
    : await mailbox.sendMany(bodies, sendOptions(options));
  for (const id of ids) {
    const stored = !duplicates.has(id);
    const text = stored
      ? `sent ${id}`
      : `not stored ${id}: a message with this id is in the mailbox`;
    print.result({ id, stored }, text);
  }
}

/** Sends lines as they come. What was sent before a bad line stays sent, and is told. */
async function sendLines(
  mailbox: Mailbox<unknown>,
  io: Io,
  print: Print,
  options: Options,
  read: (text: string, where: string, advice: string) => unknown,
): Promise<void> {
  const bar = progress(io, "sending", print.json);
  const interrupted = interruption(io);
  let sent = 0;
  let line = 0;
  try {
    for await (const batch of batches(io.lines(), BATCH, interrupted.signal)) {
      const bodies: unknown[] = [];
      let bad: unknown;
      for (const text of batch) {
        line++;
        if (text.trim() === "") continue;
        try {
          bodies.push(read(text, `Line ${line}`, "Write one JSON value a line"));
        } catch (error) {
          bad = error;
          break;
        }
      }
      for (const id of await sendPatiently(mailbox, bodies, options, print, interrupted.signal)) {
        sent++;
        if (print.json) print.result({ id, stored: true }, ""); // only --id can make a duplicate
      }
      if (bad !== undefined) throw bad;
      bar.to(sent);
    }
  } catch (error) {
    bar.end();
    throw interruptedBy(error, `sent before it: ${counted(sent, "message")}`);
  } finally {
    interrupted.end();
  }
  bar.end();
  if (!print.json) print.result(sent, `sent ${counted(sent, "message")}`);
}

/** Waits for room where the mailbox is full, as a pipe does: whoever fills it is held up. */
async function sendPatiently(
  mailbox: Mailbox<unknown>,
  bodies: readonly unknown[],
  options: Options,
  print: Print,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const ids: string[] = [];
  let size = bodies.length;
  let told = false;
  while (ids.length < bodies.length) {
    try {
      const part = bodies.slice(ids.length, ids.length + size);
      ids.push(...await mailbox.sendMany(part, sendOptions(options)));
    } catch (error) {
      if (!isMailboxError(error, "MailboxFullError")) throw error;
      // All or none: fewer may fit where these do not.
      if (size === 1) {
        if (!told) print.note("The mailbox is full: waiting for room. Ctrl+C ends it.");
        told = true;
        await systemClock.sleep(FULL_PAUSE_MS, { signal });
      }
      size = Math.ceil(size / 2);
    }
  }
  return ids;
}

function sendOptions({ delay, id, replyTo }: Options): SendOptions {
  return {
    ...(delay === undefined ? {} : { delayMs: delay }),
    ...(id === undefined ? {} : { id }),
    ...(replyTo === undefined ? {} : { replyTo }),
  };
}

/** What to do about an argument that is not JSON, which most often was left to the shell. */
const QUOTE = `Quote it for the shell, as '{"dish":"soup"}'`;

function parseBody(text: string, where: string, advice: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const shown = text.length > 40 ? `${text.slice(0, 40)}…` : text;
    throw usageError(`${where} is not JSON: ${shown}. ${advice}, or add --text`, { cause: error });
  }
}
