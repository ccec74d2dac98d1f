import { type Command, Option } from "commander";
import { isMailboxError, type Mailbox, type SendOptions, systemClock } from "../../mod.ts";
import { checkId, envelopeOf, MAX_PRIORITY } from "../../src/mailbox/envelope.ts";
import type { SendResult } from "../../src/mailbox/mailbox.ts";
import { asUsage, usageError, withProgress } from "../_errors.ts";
import { interruption, type Io } from "../_io.ts";
import { progress } from "../_live.ts";
import { MAILBOXES, takeMailbox, withMailbox } from "../_mailbox.ts";
import {
  definedOnly,
  examples,
  parseCount,
  parseDelay,
  parseHeader,
  parseInterval,
  parseTime,
} from "../_options.ts";
import { counted, type Print, printer } from "../_print.ts";

const BATCH_SIZE = 500;
/** The pause before the next attempt to send to a full mailbox. */
const FULL_PAUSE_MS = 200;

interface Options {
  readonly text?: boolean;
  readonly id?: string;
  readonly dedup?: number;
  readonly key?: string;
  readonly priority?: number;
  readonly delay?: number;
  readonly at?: Date;
  readonly expires?: number;
  readonly maxDeliveries?: number;
  readonly header?: Readonly<Record<string, string>>;
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
    .option("--id <id>", "id of the message; not stored if the mailbox has a message with this id")
    .addOption(
      new Option("--dedup <time>", "with --id: remember the id for this time, as 1h")
        .argParser(parseInterval),
    )
    .option("--key <key>", "handle messages with the same key one at a time and in order")
    .addOption(
      new Option("--priority <number>", "from 0 to 9; higher ones are received first")
        .argParser(parseCount(0, MAX_PRIORITY)),
    )
    .addOption(
      new Option("--delay <time>", "hide the messages for this time, as 30s").argParser(parseDelay),
    )
    .addOption(
      new Option("--at <time>", "hide the messages until then, as 2030-01-31T08:00Z")
        .argParser(parseTime).conflicts("delay"),
    )
    .addOption(
      new Option("--expires <time>", "dead-letter the messages when not received within this time")
        .argParser(parseInterval),
    )
    .addOption(
      new Option("--max-deliveries <count>", "dead-letter the messages after this many attempts")
        .argParser(parseCount(1)),
    )
    .addOption(
      new Option("--header <name=value>", "header of the messages; can be repeated")
        .argParser(parseHeader),
    )
    .option("--reply-to <name>", "mailbox for replies")
    .addHelpText("after", MAILBOXES)
    .addHelpText(
      "after",
      examples(
        [`lastcall send sqlite:./jobs.db '{"dish":"soup"}'`, "one message"],
        ["lastcall send sqlite:./jobs.db --text hello world", "two messages, as text"],
        [`lastcall send sqlite:./jobs.db '{}' --delay 5m`, "hidden for five minutes"],
        [`lastcall send sqlite:./jobs.db '{}' --key ada --priority 5`, "in order for one customer"],
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
      if (options.dedup !== undefined && options.id === undefined) {
        throw usageError("--dedup needs --id: give the id to remember");
      }
      const fields = sendOptions(options);
      asUsage(() => [envelopeOf(fields as object), checkId(fields.id ?? "")]);
      const print = printer(io, command);
      const read = (text: string, where: string, advice: string) =>
        options.text ? text : parseBody(text, where, advice);
      const bodies = streamed ? [] : rest.map((text, at) => read(text, `Body ${at + 1}`, QUOTE));
      await withMailbox(url, { create: true }, async (mailbox) => {
        if (streamed) await sendLines(mailbox, io, print, fields, read);
        else await sendBodies(mailbox, bodies, print, fields);
      });
    });
}

async function sendBodies(
  mailbox: Mailbox<unknown>,
  bodies: readonly unknown[],
  print: Print,
  options: SendOptions,
): Promise<void> {
  for (const result of await mailbox.sendMany(bodies, () => options)) {
    print.result(result, result.stored ? `sent ${result.id}` : notStored(result, options));
  }
}

function notStored({ id }: SendResult, { dedupMs }: SendOptions): string {
  const remembered = dedupMs === undefined ? "" : ", or remembers the id of an earlier one";
  return `not stored ${id}: the mailbox has a message with this id${remembered}`;
}

/** Sends lines as they arrive. After a bad line it stops and reports how many it has sent. */
async function sendLines(
  mailbox: Mailbox<unknown>,
  io: Io,
  print: Print,
  options: SendOptions,
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
      const results = await sendWhenRoom(mailbox, bodies, options, print, interrupted.signal);
      for (const result of results) {
        if (result.stored) sent++;
        if (print.json || !result.stored) print.result(result, notStored(result, options));
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
  options: SendOptions,
  print: Print,
  signal: AbortSignal,
): Promise<readonly SendResult[]> {
  const results: SendResult[] = [];
  let size = bodies.length;
  let noted = false;
  while (results.length < bodies.length) {
    try {
      const part = bodies.slice(results.length, results.length + size);
      results.push(...await mailbox.sendMany(part, () => options));
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
  return results;
}

function sendOptions(options: Options): SendOptions {
  const { id, dedup, key, priority, delay, at, expires, maxDeliveries, header, replyTo } = options;
  return definedOnly({
    id,
    dedupMs: dedup,
    key,
    priority,
    delayMs: delay,
    deliverAt: at,
    expiresInMs: expires,
    maxDeliveries,
    headers: header,
    replyTo,
  });
}

/** The advice for an argument that is not JSON: most often the shell has removed its quotes. */
const QUOTE = `Quote it for the shell, as '{"dish":"soup"}'`;

export function parseBody(text: string, where: string, advice: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const shown = text.length > 40 ? `${text.slice(0, 40)}…` : text;
    throw usageError(`${where} is not JSON: ${shown}. ${advice}, or add --text`, { cause: error });
  }
}
