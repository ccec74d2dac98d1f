// `lastcall count` and `lastcall queues`.

import type { Command } from "commander";
import { isMailboxError, type Mailbox } from "../../mod.ts";
import { countAll } from "../../src/health/mailbox_answer.ts";
import type { MailboxStats, QueueStats } from "../../src/mailbox/mailbox.ts";
import { CliError } from "../_errors.ts";
import type { Io } from "../_io.ts";
import { MAILBOXES, onlyMailbox, withMailbox } from "../_mailbox.ts";
import { examples } from "../_options.ts";
import { ageText, counted, pauseText, printer, rateText, statsTable } from "../_print.ts";

/** Adds `lastcall count`, which counts messages by state, and dead letters. */
export function addCount(program: Command, io: Io): void {
  program.command("count")
    .description(
      "Count the messages of a mailbox by state, and its dead letters, and tell whether it is " +
        "paused or limited. The first number is the number of messages in any state.",
    )
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
        const stats = await mailbox.stats();
        const messages = await countAll(mailbox, stats);
        printer(io, command).result({ messages, ...stats }, countText(messages, stats));
      });
    });
}

/** Formats counts: `3 messages (2 waiting, 1 delayed, 0 in flight, oldest 5 s), 0 dead letters`. */
function countText(messages: number, stats: MailboxStats): string {
  const { waiting, delayed, inFlight, oldestWaitingMs, dead, paused, pausedForMs, rateLimit } =
    stats;
  const states = [
    `${waiting} waiting`,
    ...(delayed === undefined ? [] : [`${delayed} delayed`]),
    ...(inFlight === undefined ? [] : [`${inFlight} in flight`]),
    ...(oldestWaitingMs === undefined ? [] : [`oldest ${ageText(oldestWaitingMs)}`]),
  ];
  return [
    `${counted(messages, "message")}${messages === 0 ? "" : ` (${states.join(", ")})`}`,
    ...(dead === undefined ? [] : [counted(dead, "dead letter")]),
    ...(paused ? [pausedForMs === undefined ? "paused" : pauseText(stats)] : []),
    ...(rateLimit === undefined ? [] : [`limit ${rateText(rateLimit)}`]),
  ].join(", ");
}

/** Adds `lastcall queues`, which lists the queues of a database or server. */
export function addQueues(program: Command, io: Io): void {
  program.command("queues")
    .description(
      "List all queues of a database or server with their counts. The URL is that of any mailbox " +
        "there.",
    )
    .argument("[mailbox]", "URL of a mailbox, with or without ?queue=")
    .addHelpText("after", MAILBOXES)
    .addHelpText(
      "after",
      examples(
        ["lastcall queues sqlite:./jobs.db", "all queues of a file"],
        ["lastcall queues sqlite:./jobs.db --json", "as JSON, one queue a line"],
      ),
    )
    .action(async (url: string | undefined, _options: unknown, command: Command) => {
      await withMailbox(onlyMailbox(io, url), { create: false }, async (mailbox) => {
        const queues = [...await queuesOf(mailbox)].sort((a, b) => a.name < b.name ? -1 : 1);
        const { columns, row } = statsTable(queues);
        printer(io, command).list(
          queues,
          ["QUEUE", ...columns],
          (queue) => [queue.name, ...row(queue)],
          "no queues",
        );
      });
    });
}

async function queuesOf(mailbox: Mailbox<unknown>): Promise<readonly QueueStats[]> {
  const cannot = (cause?: unknown) =>
    new CliError("failed", `The engine of mailbox "${mailbox.name}" cannot list its queues`, {
      cause,
    });
  if (mailbox.queues === undefined) throw cannot();
  try {
    return await mailbox.queues();
  } catch (error) {
    throw isMailboxError(error, "InvalidParameterError") ? cannot(error) : error;
  }
}
