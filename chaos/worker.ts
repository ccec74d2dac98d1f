// A worker of a chaos test: an ordinary program that also reports each message to the parent process.

import { writeSync } from "node:fs";
import process from "node:process";
import { setInterval } from "node:timers";
import {
  type HandlerContext,
  isCancelledError,
  LoopGroup,
  type Mailbox,
  MailboxLoop,
  openMailbox,
} from "../mod.ts";
import { CronLoop } from "../src/cron/mod.ts";
import { CONCURRENCY, type Job } from "./_sender.ts";
import type { WorkerSettings } from "./_workers.ts";

const settings: WorkerSettings = JSON.parse(process.argv[2]!);

/** The names of the steps of a handler. They share its time. */
const STEPS = ["one", "two", "three"];

/** The numbers of the handler calls that are not acknowledged, by receipt handle. */
const calls = new Map<string, number>();
let lastCall = 0;

const mailbox = await openMailbox<Job>(settings.url);
reportAcknowledgements(mailbox);
const loop = new MailboxLoop({
  mailbox,
  concurrency: CONCURRENCY,
  prefetch: settings.prefetch,
  ...(settings.maxDeliveries && { deadLetter: { maxDeliveries: settings.maxDeliveries } }),
  handler: async ({ id, body, receiptHandle }, context) => {
    const call = ++lastCall;
    calls.set(receiptHandle, call);
    const owner = mailbox.capabilities.ownerDetection ? "detected" : "undetected";
    report(`started ${call} ${id} ${context.attempt} ${Date.now()} ${owner}`);
    try {
      if (await isCancelledDuring(call, body.workMs, context)) {
        return report(`aborted ${call} ${Date.now()}`);
      }
    } catch (error) {
      report(`failed ${call} ${Date.now()}`);
      calls.delete(receiptHandle);
      throw error;
    }
    if (body.poison) await die(call);
    report(`done ${call} ${Date.now()}`);
  },
});
// Opened before the worker is ready: a loop fails when it is suspended for too long while it connects.
const slots = settings.cronUrl && await openMailbox<number>(settings.cronUrl);
const cron = !slots ? [] : [
  new CronLoop({
    name: "every-second",
    schedule: "* * * * * *",
    mailbox: slots,
    body: ({ at }) => at.getTime(),
    catchUp: "all",
  }),
];
const group = new LoopGroup([loop, ...cron], { shutdownTimeoutMs: settings.shutdownTimeoutMs });
group.on("phase", ({ phase }) => phase === "running" && report("ready"));
process.stdin.on("close", () => process.exit(1)).resume(); // the parent process has ended
reportStalls(100, 500);
await group.main({ visibilityTimeoutMs: settings.visibilityTimeoutMs });

/** Looks every so often whether the worker was suspended or got no CPU time, and reports it. */
function reportStalls(everyMs: number, longMs: number): void {
  let last = Date.now();
  setInterval(() => {
    const now = Date.now();
    if (now - last > longMs) report(`stalled 0 ${last} ${now}`);
    last = now;
  }, everyMs).unref();
}

/** Does the work, in steps where the run has steps. Returns true when the message was cancelled. */
async function isCancelledDuring(
  call: number,
  ms: number,
  { signal, step }: HandlerContext,
): Promise<boolean> {
  if (!settings.steps) return await isCancelledWithin(ms, signal);
  for (const name of STEPS) {
    try {
      await step(name, async () => {
        report(`ran ${call} ${name} ${Date.now()}`);
        await isCancelledWithin(ms / STEPS.length, signal);
      });
    } catch (error) {
      // The engine cannot save a step of a message that it has deleted.
      if (!isCancelled(signal)) throw error;
    }
    if (isCancelled(signal)) return true;
    report(`saved ${call} ${name} ${Date.now()}`);
  }
  return false;
}

/** Ends this process as a crash in a handler does. */
async function die(call: number): Promise<void> {
  report(`dying ${call} ${Date.now()}`);
  process.kill(process.pid, "SIGKILL");
  await new Promise(() => {});
}

/** Does the work. Returns true as soon as its message is cancelled; a lost lease does not end it. */
async function isCancelledWithin(ms: number, signal: AbortSignal): Promise<boolean> {
  return await new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), ms);
    signal.addEventListener("abort", () => {
      if (!isCancelled(signal)) return;
      clearTimeout(timer);
      resolve(true);
    });
  });
}

function isCancelled({ reason }: AbortSignal): boolean {
  return isCancelledError(reason) && reason.reason === "cancelled";
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
