// The pause and the rate limit of a queue, for all its processes: `lastcall limit`, and `lastcall pause` and
// `lastcall resume` with the URL of a mailbox.

import type { Command } from "commander";
import type { Mailbox } from "../../mod.ts";
import type { RateLimit } from "../../src/mailbox/mailbox.ts";
import { checkRateLimit } from "../../src/mailbox/queue_control.ts";
import { CliError, usageError } from "../_errors.ts";
import type { Io } from "../_io.ts";
import { MAILBOXES, takeMailbox, withMailbox } from "../_mailbox.ts";
import { examples, parseDuration } from "../_options.ts";
import { pauseText, type Print, printer, rateText } from "../_print.ts";

/** Adds `lastcall limit`, which shows, sets and ends the rate limit of a queue. */
export function addLimit(program: Command, io: Io): void {
  program.command("limit")
    .description(
      "Limit how many messages of a queue are delivered to all processes together, or show the " +
        "limit. It is stored with the queue. Redeliveries count too.",
    )
    .usage("[options] [mailbox] [rate]")
    .argument("[mailbox]", "URL of the mailbox")
    .argument("[rate]", "100/s, 600/m, 10/500ms, or off; without it the limit is shown")
    .addHelpText("after", MAILBOXES)
    .addHelpText(
      "after",
      examples(
        ["lastcall limit sqlite:./jobs.db 100/s", "at most 100 in any second"],
        ["lastcall limit sqlite:./jobs.db 10/500ms", "at most 10 in any half second"],
        ["lastcall limit sqlite:./jobs.db", "shows the limit"],
        ["lastcall limit sqlite:./jobs.db off", "no limit"],
      ),
    )
    .action(async (
      first: string | undefined,
      second: string | undefined,
      _options: unknown,
      command: Command,
    ) => {
      const { url, rest: [rate, ...more] } = takeMailbox(io, [first, second]);
      if (more.length > 0) {
        throw usageError(`${first} is not a mailbox: give its URL first, then the rate`);
      }
      const limit = rate === undefined ? undefined : parseRate(rate);
      const print = printer(io, command);
      await withMailbox(url, { create: false }, (mailbox) => limitQueue(mailbox, limit, print));
    });
}

/** Parses `100/s`, `600/m` or `10/500ms` as a rate limit, and `off` as false. */
export function parseRate(text: string): RateLimit | false {
  if (text === "off") return false;
  const [, max, amount = "1", unit] = /^(\d+)\/(\d+(?:\.\d+)?)?(ms|s|m|h|d)$/.exec(text) ?? [];
  if (max === undefined) {
    throw usageError(
      `Invalid rate ${text}: write messages per period, as 100/s, 600/m or 10/500ms, or off`,
    );
  }
  try {
    return checkRateLimit({ max: Number(max), perMs: parseDuration(`${amount}${unit}`) });
  } catch (cause) {
    const message = `Invalid rate ${text}: write 1 to 1000000 messages per period of 1ms to 1d`;
    throw usageError(message, { cause });
  }
}

/** Sets or ends the limit of a queue; without one it shows the current limit. */
export async function limitQueue(
  mailbox: Mailbox<unknown>,
  limit: RateLimit | false | undefined,
  print: Print,
): Promise<void> {
  const { name, capabilities } = mailbox;
  if (!capabilities.rateLimit) {
    throw new CliError("failed", `The engine of mailbox "${name}" cannot limit its deliveries`);
  }
  if (limit !== undefined) await mailbox.rateLimit(limit);
  const now = limit ?? (await mailbox.stats()).rateLimit ?? false;
  print.result(
    { mailbox: name, rateLimit: now },
    `mailbox "${name}" ${now === false ? "has no limit" : `is limited to ${rateText(now)}`}`,
  );
}

/** Stops the deliveries of a queue to all processes, for `forMs` or until it is resumed. */
export async function pauseQueue(
  mailbox: Mailbox<unknown>,
  forMs: number | undefined,
  print: Print,
): Promise<void> {
  requirePause(mailbox, "pause");
  await mailbox.pause(forMs === undefined ? {} : { forMs });
  // An earlier pause that lasts longer stays.
  const { pausedForMs, inFlight } = await mailbox.stats();
  const working = inFlight ? `; ${inFlight} in flight` : "";
  print.result(
    {
      ...{ state: "paused", mailbox: mailbox.name },
      ...(pausedForMs !== undefined && { pausedForMs }),
      ...(inFlight !== undefined && { inFlight }),
    },
    `mailbox "${mailbox.name}" is ${pauseText({ pausedForMs })}${working}`,
  );
}

/** Continues the deliveries of a queue to all processes. */
export async function resumeQueue(mailbox: Mailbox<unknown>, print: Print): Promise<void> {
  requirePause(mailbox, "resume");
  await mailbox.resume();
  print.result(
    { state: "resumed", mailbox: mailbox.name },
    `mailbox "${mailbox.name}" delivers messages again`,
  );
}

function requirePause({ name, capabilities }: Mailbox<unknown>, call: string): void {
  if (capabilities.pause) return;
  throw new CliError(
    "failed",
    `The engine of mailbox "${name}" cannot ${call} its deliveries: ${call} the groups that use ` +
      `it, as lastcall ${call} localhost:8080`,
  );
}
