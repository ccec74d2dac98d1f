import { type Command, Option } from "commander";
import { isMailboxError, type Mailbox, type SendOptions, systemClock } from "../../mod.ts";
import { usageError, withProgress } from "../_errors.ts";
import { interruption, type Io } from "../_io.ts";
import { progress } from "../_live.ts";
import { MAILBOXES, takeMailbox, withMailbox } from "../_mailbox.ts";
import { examples, parseDuration } from "../_options.ts";
import { counted, type Print, printer } from "../_print.ts";

const BATCH_SIZE = 500;
/** The pause before the next attempt to send to a full mailbox. */
const FULL_PAUSE_MS = 200;

interface Options {
  readonly text?: boolean;
  readonly delay?: number;
  readonly id?: string;
  readonly replyTo?: string;
}

/** Adds `lastcall send`, which sends messages to a mailbox. */
export function addSend(program: Command, io: Io): void {
  program.command("send")
    .description(
      "Send messages: one per argument, or one JSON value a line from standard input.",
    )
    .argument("[mailbox]", "URL of the mailbox")
    .argument("[bodies...]", "JSON values, one per message; - reads standard input")
    .option("--text", "send the bodies as text, not as JSON")
    .addOption(
      new Option("--delay <time>", "hide the messages for this time, as 30s").argParser(
        parseDuration,
      ),
    )
    .option("--id <id>", "id of the message; not stored if the mailbox has a message with this id")
    .option("--reply-to <name>", "mailbox for replies")
    .addHelpText("after", MAILBOXES)
    .addHelpText(
      "after",
      examples(
        [`lastcall send sqlite:./jobs.db '{"dish":"soup"}'`, "one message"],
        ["lastcall send sqlite:./jobs.db --text hello world", "two messages, as text"],
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
          "Nothing to send: give bodies as arguments, or pipe one JSON value a line to this command",
        );
      }
      if (options.id !== undefined && (streamed || rest.length > 1)) {
        throw usageError("--id needs exactly one body: give the body as an argument");
      }
      if (options.id === "") {
        throw usageError("Invalid --id: it must not be empty; omit it for a new id");
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
  for (const { id, stored } of await mailbox.sendMany(bodies, () => sendOptions(options))) {
    const text = stored ? `sent ${id}` : `not stored ${id}: the mailbox has a message with this id`;
    print.result({ id, stored }, text);
  }
}

/** Sends lines as they arrive. After a bad line it stops and reports how many it has sent. */
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
    for await (const batch of batches(io.lines(), BATCH_SIZE, interrupted.signal)) {
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
      for (const id of await sendWhenRoom(mailbox, bodies, options, print, interrupted.signal)) {
        sent++;
        if (print.json) print.result({ id, stored: true }, ""); // only --id can cause a duplicate
      }
      if (bad !== undefined) throw bad;
      bar.to(sent);
    }
  } catch (error) {
    bar.end();
    throw withProgress(error, `sent before that: ${counted(sent, "message")}`);
  } finally {
    interrupted.end();
  }
  bar.end();
  if (!print.json) print.result(sent, `sent ${counted(sent, "message")}`);
}

/**
 * Groups the items of a source into batches of at most `max`. A batch holds the items that are
 * available now; it never waits for more. Rejects with the reason of `signal` when that aborts.
 */
export async function* batches<T>(
  source: AsyncIterable<T>,
  max: number,
  signal: AbortSignal,
): AsyncGenerator<T[]> {
  const iterator = source[Symbol.asyncIterator]();
  const aborted = new Promise<never>((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
  aborted.catch(() => {}); // an abort outside a wait is not an unhandled rejection
  let batch: T[] = [];
  let next = iterator.next();
  while (true) {
    signal.throwIfAborted();
    const item = await Promise.race([next, aborted, ...(batch.length === 0 ? [] : [nextTurn()])]);
    if (item !== undefined && !item.done) {
      batch.push(item.value);
      next = iterator.next();
    }
    const full = batch.length >= max;
    if (batch.length > 0 && (full || item === undefined || item.done)) {
      yield batch;
      batch = [];
    }
    if (item?.done) return;
  }
}

/** Resolves after everything that is already due. */
function nextTurn(): Promise<undefined> {
  return new Promise((resolve) => setImmediate(resolve, undefined));
}

/** Sends all bodies, and waits while the mailbox is full. */
async function sendWhenRoom(
  mailbox: Mailbox<unknown>,
  bodies: readonly unknown[],
  options: Options,
  print: Print,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const ids: string[] = [];
  let size = bodies.length;
  let noted = false;
  while (ids.length < bodies.length) {
    try {
      const part = bodies.slice(ids.length, ids.length + size);
      const sent = await mailbox.sendMany(part, () => sendOptions(options));
      ids.push(...sent.map(({ id }) => id));
    } catch (error) {
      if (!isMailboxError(error, "MailboxFullError")) throw error;
      // sendMany stores all or none, so a smaller batch may still fit.
      if (size === 1) {
        if (!noted) print.note("The mailbox is full: waiting for room. Ctrl+C stops waiting.");
        noted = true;
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

/** The advice for an argument that is not JSON: most often the shell has removed its quotes. */
const QUOTE = `Quote it for the shell, as '{"dish":"soup"}'`;

function parseBody(text: string, where: string, advice: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const shown = text.length > 40 ? `${text.slice(0, 40)}…` : text;
    throw usageError(`${where} is not JSON: ${shown}. ${advice}, or add --text`, { cause: error });
  }
}
