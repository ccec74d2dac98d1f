import { type Mailbox, silentLog, systemClock } from "../../mod.ts";
import { type MailboxUrl, parseMailboxUrl } from "../../src/engines/mailbox_url.ts";
import { explain, textOf } from "../_errors.ts";
import { open } from "../_mailbox.ts";
import { counted } from "../_print.ts";
import { checkCapabilities } from "./check_capabilities.ts";
import { type Finding, ok, problem, warning } from "./finding.ts";
import { checkFile } from "./mailbox_file.ts";
import type { Settings } from "./settings.ts";
import { spell } from "./times.ts";

/** A round trip that takes longer is felt: every batch needs two. */
const SLOW_MS = 100;

/** Whether the mailbox can be reached, how fast, and what its engine cannot do. */
export async function probeEngine({ mailbox: url }: Settings): Promise<readonly Finding[]> {
  if (url === undefined) return [];
  try {
    const parsed = parseMailboxUrl(url);
    if (parsed.scheme === "memory") return [inMemory()];
    const file = await checkFile(parsed);
    if (file !== undefined) return [file];
    // The worker may make what it needs; the doctor makes nothing.
    const options = { log: silentLog, migrate: false };
    const mailbox = await open(url, false, options);
    try {
      return [
        await roundTrip(mailbox, placeOf(parsed)),
        ...checkCapabilities(mailbox.capabilities),
      ];
    } finally {
      await mailbox.close();
    }
  } catch (error) {
    return [unreachable(error)];
  }
}

function inMemory(): Finding {
  return warning("engine", {
    found: "memory: is a mailbox of one process",
    why: "nobody else can send to it, and what is in it ends with the process",
    change: "--mailbox sqlite:./jobs.db, or a server",
  });
}

async function roundTrip(mailbox: Mailbox<unknown>, place: string): Promise<Finding> {
  const messages = await mailbox.approximateCount();
  const began = systemClock.monotonic();
  const dead = await (mailbox.deadLetters ?? mailbox).approximateCount();
  const ms = systemClock.monotonic() - began;
  const letters = mailbox.deadLetters === undefined ? "" : `, ${counted(dead, "dead letter")}`;
  const found = `${place} answers in ${spell(Math.max(1, ms))}: ` +
    `${counted(messages, "message")}${letters}`;
  if (ms <= SLOW_MS) return ok("engine", found);
  return warning("engine", {
    found,
    why: "every batch of messages needs two such calls, and every lease one now and then",
    change: "bring the worker nearer to it, or raise --concurrency and --prefetch",
  });
}

function unreachable(error: unknown): Finding {
  const { message, code } = explain(error);
  // PostgreSQL answers, and has nothing of ours yet.
  if (/version 0 and this package needs/.test(textOf(error))) {
    return ok("engine", "the server answers; its tables will be made when the worker starts");
  }
  return problem("engine", {
    found: message,
    why: "the worker could not start with it",
    change: code === "usage"
      ? "what it says"
      : "--mailbox, or whatever keeps this machine from reaching it",
  });
}

/** Where a URL leads to, without what opens the door there. */
function placeOf({ scheme, path }: MailboxUrl): string {
  return `${scheme}:${path.replace(/\/\/[^/]*@/, "//")}`;
}
