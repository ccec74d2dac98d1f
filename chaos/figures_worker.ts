// A worker of `npm run chaos:figures`. It reports each start to the parent process, with the time.
// Arguments: the URL of the mailbox, its concurrency, and `maxDeliveries`.

import { writeSync } from "node:fs";
import process from "node:process";
import { LoopGroup, MailboxLoop, RetryLaterError, systemClock } from "../mod.ts";
import { deferred } from "../src/_promises.ts";

/** What the handler of a message does. */
export type Task =
  /** Works for so long. */
  | { readonly do: "work"; readonly ms: number }
  /** Works until it is told to end by `finish` on standard input. */
  | { readonly do: "hold" }
  /** Kills its process. */
  | { readonly do: "kill" }
  /** Pauses the queue for so long, the first time, as after a status of 429. */
  | { readonly do: "cool down"; readonly ms: number };

const [url = "", concurrency = "1", maxDeliveries = "10"] = process.argv.slice(2);
const finished = deferred();
process.stdin.on("data", () => finished.resolve());
process.stdin.on("close", () => process.exit(1)); // the parent process has ended

const loop = new MailboxLoop<Task>({
  mailbox: url,
  concurrency: Number(concurrency),
  deadLetter: { maxDeliveries: Number(maxDeliveries) },
  handler: async ({ id, body, headers }, { attempt }) => {
    report(`started ${id} ${attempt} ${Date.now()}`);
    switch (body.do) {
      case "work":
        if (body.ms > 0) await systemClock.sleep(body.ms);
        break;
      case "hold":
        await finished.promise;
        break;
      case "kill":
        process.kill(process.pid, "SIGKILL");
        return await new Promise(() => {});
      case "cool down":
        if (Date.now() < Number(headers["until"])) {
          throw new RetryLaterError("busy", { delayMs: body.ms, pauseQueue: true });
        }
    }
    report(`done ${id} ${attempt} ${Date.now()}`);
  },
});
const group = new LoopGroup([loop], { shutdownTimeoutMs: 5_000 });
group.on("phase", ({ phase }) => phase === "running" && report("ready"));
await group.main();

/** Writes a line synchronously, so that it is not lost when the process is killed next. */
function report(line: string): void {
  writeSync(1, `${line}\n`);
}
