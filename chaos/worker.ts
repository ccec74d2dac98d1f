// A worker of a chaos test: an ordinary program that also reports each message to the parent process.
// Arguments: the URL of the mailbox, and in milliseconds the visibility timeout and the shutdown timeout.

import { writeSync } from "node:fs";
import process from "node:process";
import { LoopGroup, MailboxLoop, openMailbox } from "../mod.ts";
import { CONCURRENCY, type Job } from "./_sender.ts";

const [url = "", leaseMs = "", shutdownTimeoutMs = ""] = process.argv.slice(2);

const mailbox = await openMailbox<Job>(url);
const loop = new MailboxLoop({
  mailbox,
  concurrency: CONCURRENCY,
  prefetch: CONCURRENCY,
  handler: async ({ id, body }, { attempt }) => {
    report(`started ${id} ${attempt}`);
    await new Promise((resolve) => setTimeout(resolve, body.workMs));
    report(`done ${id}`);
  },
});
const group = new LoopGroup([loop], { shutdownTimeoutMs: Number(shutdownTimeoutMs) });
group.on("phase", ({ phase }) => phase === "running" && report("ready"));
process.stdin.on("close", () => process.exit(1)).resume(); // the parent process has ended
await group.main({ visibilityTimeoutMs: Number(leaseMs) });

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
