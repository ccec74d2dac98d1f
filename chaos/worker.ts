// A worker under fire: an ordinary program, apart from what it tells the ledger. Arguments: the URL of
// the mailbox, the length of a lease and the time for a stop, both in milliseconds.

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
    tell(`begin ${id} ${attempt}`);
    await new Promise((resolve) => setTimeout(resolve, body.workMs));
    tell(`done ${id}`);
  },
});
const group = new LoopGroup([loop], { shutdownTimeoutMs: Number(shutdownTimeoutMs) });
group.on("phase", ({ phase }) => phase === "running" && tell("ready"));
process.stdin.on("close", () => process.exit(1)).resume(); // nobody is there to tell any more
await group.main({ visibilityTimeoutMs: Number(leaseMs) });

/** Not to be lost whatever comes next: it returns when the line is out of this process. */
function tell(line: string): void {
  for (let rest = new TextEncoder().encode(`${line}\n`); rest.length > 0;) {
    try {
      rest = rest.subarray(writeSync(1, rest));
    } catch (error) {
      if ((error as { readonly code?: string }).code !== "EAGAIN") throw error;
    }
  }
}
