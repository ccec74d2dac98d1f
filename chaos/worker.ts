// A worker of a chaos test: an ordinary program that also reports each message to the parent process.
// Arguments: the URL of the mailbox, and in milliseconds the visibility timeout and the shutdown timeout.

import { writeSync } from "node:fs";
import process from "node:process";
import { isCancelledError, LoopGroup, type Mailbox, MailboxLoop, openMailbox } from "../mod.ts";
import { CONCURRENCY, type Job } from "./_sender.ts";

const [url = "", leaseMs = "", shutdownTimeoutMs = ""] = process.argv.slice(2);

/** The numbers of the handler calls that are not acknowledged, by receipt handle. */
const calls = new Map<string, number>();
let lastCall = 0;

const mailbox = await openMailbox<Job>(url);
reportAcknowledgements(mailbox);
const loop = new MailboxLoop({
  mailbox,
  concurrency: CONCURRENCY,
  prefetch: CONCURRENCY,
  handler: async ({ id, body, receiptHandle }, { attempt, signal }) => {
    const call = ++lastCall;
    calls.set(receiptHandle, call);
    report(`started ${call} ${id} ${attempt} ${Date.now()}`);
    if (await isCancelledWithin(body.workMs, signal)) report(`aborted ${call} ${Date.now()}`);
    else report(`done ${call} ${Date.now()}`);
  },
});
const group = new LoopGroup([loop], { shutdownTimeoutMs: Number(shutdownTimeoutMs) });
group.on("phase", ({ phase }) => phase === "running" && report("ready"));
process.stdin.on("close", () => process.exit(1)).resume(); // the parent process has ended
await group.main({ visibilityTimeoutMs: Number(leaseMs) });

/** Does the work. Returns true as soon as its message is cancelled; a lost lease does not end it. */
async function isCancelledWithin(ms: number, signal: AbortSignal): Promise<boolean> {
  return await new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), ms);
    signal.addEventListener("abort", () => {
      if (!isCancelledError(signal.reason) || signal.reason.reason !== "cancelled") return;
      clearTimeout(timer);
      resolve(true);
    });
  });
}

/** Reports for each acknowledgement how the engine answered: if it accepted the first call, the lease was valid. */
function reportAcknowledgements(mailbox: Mailbox<Job>): void {
  const acknowledgeMany = mailbox.acknowledgeMany!.bind(mailbox);
  const repeated = new Set<string>();
  mailbox.acknowledgeMany = async (messages) => {
    try {
      const accepted = await acknowledgeMany(messages);
      for (const [i, { receiptHandle }] of messages.entries()) {
        const answer = repeated.has(receiptHandle)
          ? "repeated"
          : accepted[i]
          ? "accepted"
          : "refused";
        report(`acknowledged ${calls.get(receiptHandle)} ${answer}`);
        calls.delete(receiptHandle);
      }
      return accepted;
    } catch (error) {
      // When the loop calls again, the engine cannot always tell who has deleted the message.
      for (const { receiptHandle } of messages) repeated.add(receiptHandle);
      throw error;
    }
  };
}

/** Writes a line synchronously, so that it is not lost when the process is killed next. */
function report(line: string): void {
  for (let rest = new TextEncoder().encode(`${line}\n`); rest.length > 0;) {
    try {
      rest = rest.subarray(writeSync(1, rest));
    } catch (error) {
      if ((error as { readonly code?: string }).code !== "EAGAIN") throw error;
    }
  }
}
