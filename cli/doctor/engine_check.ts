// Checks of the mailbox: whether it can be reached, how fast, and what its engine cannot do. They
// create nothing: neither the file of a mailbox nor tables.

import { accessSync, constants, existsSync, statSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { type Mailbox, openMailbox, silentLog, systemClock } from "../../mod.ts";
import type { Capabilities } from "../../src/engine.ts";
import { redactUrl } from "../../src/engines/_kit/mailbox_url.ts";
import { type MailboxUrl, parseMailboxUrl } from "../../src/engines/_kit/mailbox_url.ts";
import type { MailboxStats } from "../../src/mailbox/mailbox.ts";
import type { EngineRegistration } from "../../src/engines/_kit/registration.ts";
import { engineOfScheme, ENGINES } from "../../src/engines/registry.ts";
import { CliError, connectionReason, toCliError } from "../_errors.ts";
import { open } from "../_mailbox.ts";
import { counted, pauseText, rateText } from "../_print.ts";
import { durationText, type Finding, ok, problem, warning } from "./finding.ts";
import { durationOption, optionName, type Settings } from "./settings.ts";

/** Every batch of messages needs two round trips, so a longer one limits the throughput. */
const SLOW_MS = 100;

/** Checks the mailbox of the settings. */
export async function checkEngine(settings: Settings): Promise<readonly Finding[]> {
  const { mailbox } = settings;
  if (mailbox === undefined) return [];
  try {
    return await (typeof mailbox === "string"
      ? checkUrl(mailbox, settings)
      : checkOpen(mailbox, settings));
  } catch (error) {
    return [failureFinding(error, settings)];
  }
}

async function checkUrl(url: string, settings: Settings): Promise<readonly Finding[]> {
  const parsed = parseMailboxUrl(url);
  const engine = engineOfScheme(parsed.scheme);
  if (engine?.inProcess) return [inProcess(`${parsed.scheme}:`, settings)];
  const file = engine?.file?.(parsed);
  const finding = file === undefined ? undefined : await checkFile(resolve(file), parsed);
  if (finding !== undefined) return [finding];
  // `migrate` is an option of some engines only, so the type of the options does not have it.
  const options = { log: silentLog, migrate: false };
  const mailbox = await open(url, false, options);
  try {
    return await checkMailbox(mailbox, redactUrl(url), engine?.ownerDetection?.(parsed), settings);
  } finally {
    await mailbox.close();
  }
}

/** Checks a mailbox that the module has opened, and closes it. */
async function checkOpen(
  mailbox: Mailbox<unknown>,
  settings: Settings,
): Promise<readonly Finding[]> {
  const { name, engine = "an engine of the program" } = mailbox;
  const known: EngineRegistration | undefined = ENGINES.find((it) => it.name === engine);
  if (known?.inProcess) return [inProcess(`mailbox "${name}"`, settings)];
  try {
    return await checkMailbox(mailbox, `mailbox "${name}" (${engine})`, undefined, settings);
  } finally {
    await mailbox.close();
  }
}

function inProcess(place: string, settings: Settings): Finding {
  return warning("engine", {
    found: `${place} is a mailbox of one process`,
    why: "no other process can send to it, and its messages end with the process",
    change: `${optionName(settings, "mailbox")} sqlite:./jobs.db, or a server`,
  });
}

async function checkMailbox(
  mailbox: Mailbox<unknown>,
  place: string,
  detection: string | undefined,
  settings: Settings,
): Promise<readonly Finding[]> {
  const { capabilities } = mailbox;
  const found = [
    await roundTrip(mailbox, place, settings),
    ...checkQueue(await mailbox.stats()),
  ];
  // A loop that only sends.
  if (settings.dedupMs !== undefined) return [...found, ...checkSends(capabilities)];
  return [
    ...found,
    ...checkCapabilities(capabilities, settings),
    ...(mailbox.deadLetters === undefined && settings.maxDeliveries ? [keepsNone()] : []),
    checkCrash(capabilities, detection, settings),
  ];
}

function checkSends({ dedupWindow }: Capabilities): readonly Finding[] {
  return dedupWindow ? [] : [problem("capabilities", {
    found: "the engine cannot remember the ids of messages",
    why: "every replica would send each slot, so the loop does not start",
    change: "an engine with the capability dedupWindow",
  })];
}

function keepsNone(): Finding {
  return warning("dead-letter", {
    found: "the engine keeps no dead letters",
    why: "a message that always fails is retried for ever",
    change: "a dead-letter queue in the settings of the engine",
  });
}

async function roundTrip(
  mailbox: Mailbox<unknown>,
  place: string,
  settings: Settings,
): Promise<Finding> {
  const messages = await mailbox.approximateCount();
  const began = systemClock.monotonic();
  const dead = await (mailbox.deadLetters ?? mailbox).approximateCount();
  const ms = systemClock.monotonic() - began;
  const letters = mailbox.deadLetters === undefined ? "" : `, ${counted(dead, "dead letter")}`;
  const found = `${place} answers in ${durationText(Math.max(1, ms))}: ` +
    `${counted(messages, "message")}${letters}`;
  if (ms <= SLOW_MS) return ok("engine", found);
  return warning("engine", {
    found,
    why: "every batch of messages needs two such calls",
    change: "move the worker closer to the server, or raise " +
      `${optionName(settings, "concurrency")} and ${optionName(settings, "prefetch")}`,
  });
}

/** Reports why a mailbox cannot be opened, by the class and the `reason` of the error. */
export function failureFinding(error: unknown, settings: Pick<Settings, "inCode"> = {}): Finding {
  const reason = connectionReason(error);
  if (reason === "schema_missing") {
    return ok("engine", "the server answers; the worker creates its tables when it starts");
  }
  if (reason === "schema_outdated") {
    return ok("engine", "the server answers; the worker updates its tables when it starts");
  }
  const { message, code } = toCliError(error);
  return problem("engine", {
    found: message,
    why: "the worker could not start",
    change: reason === "client_missing"
      ? "install the package"
      : code === "usage"
      ? `${optionName(settings, "mailbox")}, as the message says`
      : `${optionName(settings, "mailbox")}, or the network between this machine and the server`,
  });
}

/** Reports what the engine cannot do and what follows for the worker. */
export function checkCapabilities(
  { fencedAck, restoresAttempts, fifo }: Capabilities,
  settings: Pick<Settings, "inCode"> = {},
): readonly Finding[] {
  const lacks = [
    ...(fencedAck ? [] : ["cannot refuse a stale receipt handle"]),
    ...(restoresAttempts ? [] : ["counts deliveries that a shutdown released"]),
  ];
  if (lacks.length === 0) {
    return fifo ? [] : [ok("capabilities", "messages may arrive out of order")];
  }
  return [warning("capabilities", {
    found: `the engine ${lacks.join(", and ")}`,
    why: fencedAck
      ? "shutdowns alone may dead-letter a message"
      : "a worker that was suspended may settle a message that another worker handles by now",
    change: fencedAck
      ? `a higher ${optionName(settings, "max-deliveries")}`
      : "idempotent handlers; or an engine that refuses stale receipt handles",
  })];
}

/** Tells that the queue is paused or limited for all processes. */
export function checkQueue(stats: MailboxStats): readonly Finding[] {
  const { paused, rateLimit } = stats;
  const states = [
    ...(paused ? [pauseText(stats)] : []),
    ...(rateLimit === undefined ? [] : [`limited to ${rateText(rateLimit)}`]),
  ];
  return states.length === 0
    ? []
    : [ok("queue", `${states.join(", and ")}, for all processes: see lastcall resume and limit`)];
}

/** With a visibility timeout up to this, the messages of a crashed worker return soon enough. */
const SOON_MS = 60_000;

/**
 * Tells when the messages of a worker that crashed are delivered again. The doctor receives nothing, because
 * that would deliver a message. But an engine may learn from its first receive whether it notices dead workers,
 * and answer yes or no until then. So the finding also names what the engine `needs`, and what tells for sure.
 */
export function checkCrash(
  { ownerDetection }: Pick<Capabilities, "ownerDetection">,
  needs: string | undefined,
  settings: Pick<Settings, "visibilityTimeoutMs" | "inCode">,
): Finding {
  const { visibilityTimeoutMs } = settings;
  const timeout = `visibility timeout of ${durationText(visibilityTimeoutMs)}`;
  if (needs !== undefined) {
    return ok(
      "crash",
      `dead workers: noticed within seconds with ${needs}, otherwise by the ${timeout}; ` +
        "ownerDetection in /status of a running worker tells which",
    );
  }
  if (ownerDetection) return ok("crash", "dead workers: noticed within seconds");
  const found = `dead workers: not noticed with this engine and URL, only by the ${timeout}`;
  if (visibilityTimeoutMs <= SOON_MS) return ok("crash", found);
  return warning("crash", {
    found,
    why: "the messages of a worker that crashed are delivered again only after that time",
    change: `${durationOption(settings, "visibility-timeout", SOON_MS)}, with lease extension`,
  });
}

/** Checks the file of a mailbox. Returns undefined when the file exists and can be opened. */
async function checkFile(file: string, { href }: MailboxUrl): Promise<Finding | undefined> {
  const obstacle = fileObstacle(file);
  if (obstacle !== undefined || existsSync(file)) return obstacle;
  await openElsewhere(href, file);
  return ok("engine", `the worker creates ${file} when it starts`);
}

function fileObstacle(file: string): Finding | undefined {
  const folder = dirname(file);
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) {
    return problem("engine", {
      found: `no folder ${folder}`,
      why: "the worker creates the file of the mailbox there",
      change: `mkdir -p ${folder}`,
    });
  }
  const locked = [folder, file].find((path) => existsSync(path) && !isWritable(path));
  if (locked === undefined) return undefined;
  return problem("engine", {
    found: `${locked} is not writable`,
    why: "an open mailbox writes its file and further files next to it",
    change: `write permission on ${locked} for this user`,
  });
}

/** Opens the mailbox in a temporary folder, to check the driver and the parameters of the URL. */
async function openElsewhere(url: string, file: string): Promise<void> {
  const [place = "", query] = url.split(/\?(.*)/s);
  const folder = await mkdtemp(join(tmpdir(), "lastcall-doctor-"));
  const substitute = join(folder, "mailbox");
  try {
    const path = encodeURI(substitute).replaceAll("?", "%3F").replaceAll("#", "%23");
    const scheme = place.slice(0, place.indexOf(":"));
    const there = `${scheme}:${path}${query === undefined ? "" : `?${query}`}`;
    await (await openMailbox(there, { log: silentLog })).close();
  } catch (error) {
    const { code, message } = toCliError(error);
    throw new CliError(code, message.replaceAll(substitute, file), { cause: error });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function isWritable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}
