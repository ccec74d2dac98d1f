// Opens the mailbox of a command by its URL, and the mailbox of `run` also while its server is down.

import { statSync } from "node:fs";
import {
  type Log,
  type Mailbox,
  MailboxConnectionError,
  openMailbox,
  type OpenMailboxOptions,
  type Resource,
  silentLog,
  systemClock,
} from "../mod.ts";
import { type MailboxUrl, nameInPath, parseMailboxUrl } from "../src/engines/_kit/mailbox_url.ts";
import type { EngineRegistration } from "../src/engines/_kit/registration.ts";
import { engineOfScheme, ENGINES } from "../src/engines/registry.ts";
import { systemRandom } from "../src/random.ts";
import { CliError, toCliError, usageError } from "./_errors.ts";
import type { Io } from "./_io.ts";

/** The engines that a command can open: their messages outlive the process. */
const SHARED_ENGINES = ENGINES.filter(({ inProcess }) => inProcess !== true);

/** The help section about mailbox URLs. */
export const MAILBOXES: string = `
Mailboxes:
${helpLines().join("\n")}

  If LASTCALL_MAILBOX is set, the mailbox can be omitted.`;

function helpLines(): readonly string[] {
  const width = Math.max(...SHARED_ENGINES.map(({ name }) => name.length));
  return SHARED_ENGINES.flatMap(({ name, help, runtimes }) => {
    const only = runtimes === undefined ? "" : `, on ${runtimes.join(" and ")} only`;
    return help.map((url, at) => `  ${(at === 0 ? name : "").padEnd(width)}  ${url}${only}`);
  });
}

/**
 * Splits the arguments into the mailbox and the rest. The first argument is the mailbox, unless it
 * has no scheme of an engine and LASTCALL_MAILBOX is set.
 */
export function takeMailbox(
  io: Io,
  given: readonly (string | undefined)[],
): { readonly url: string; readonly rest: readonly string[] } {
  const args = given.filter((it) => it !== undefined);
  const [first, ...rest] = args;
  const fallback = io.env["LASTCALL_MAILBOX"];
  if (first !== undefined && (hasScheme(first) || !fallback)) return { url: first, rest };
  if (fallback) return { url: fallback, rest: args };
  throw usageError(
    "No mailbox: give its URL as the first argument, as sqlite:./jobs.db, or set LASTCALL_MAILBOX",
  );
}

/** Returns true for a text that begins with the scheme of an engine, as a mailbox URL does. */
export function hasScheme(text: string): boolean {
  const [scheme] = text.split(":", 1);
  return scheme !== text && engineOfScheme(scheme!.toLowerCase()) !== undefined;
}

/** Returns the mailbox of a command that takes no other argument. */
export function onlyMailbox(io: Io, given: string | undefined): string {
  const { url, rest } = takeMailbox(io, [given]);
  if (rest.length === 0) return url;
  throw usageError(`Too many arguments: ${rest[0]} is not a mailbox, and LASTCALL_MAILBOX is set`);
}

/** Options of {@linkcode withMailbox}. */
export interface OpenOptions {
  /** False for commands that must not create the file of a mailbox. */
  readonly create: boolean;
}

/** Opens a mailbox, calls `use` with it, and closes it. */
export async function withMailbox<T>(
  url: string,
  { create }: OpenOptions,
  use: (mailbox: Mailbox<unknown>) => Promise<T>,
): Promise<T> {
  const mailbox = await open(url, create, { log: silentLog });
  try {
    return await use(mailbox);
  } finally {
    await mailbox.close();
  }
}

/** Returns the name of the mailbox with this URL, without opening it. */
export function mailboxName(url: string): string {
  const { engine, ...parsed } = findEngine(url);
  // An engine without the parameter has the name in the path.
  return engine.parameters.includes("queue")
    ? parsed.params.get("queue") ?? "default"
    : nameInPath(parsed);
}

/** Finds the engine of a URL. Refuses mailboxes in memory, which no other process can use. */
function findEngine(url: string): MailboxUrl & { readonly engine: EngineRegistration } {
  const parsed = parseMailboxUrl(url);
  const { scheme } = parsed;
  const engine = engineOfScheme(scheme);
  if (engine === undefined) {
    const known = SHARED_ENGINES.flatMap(({ schemes }) => schemes).join(", ");
    throw usageError(`Unknown scheme "${scheme}" of a mailbox URL: expected one of ${known}`);
  }
  if (engine.inProcess) {
    throw usageError(
      `${scheme}: ends with the process: use a file, as sqlite:./jobs.db, or a server`,
    );
  }
  return { ...parsed, engine };
}

/** Opens a mailbox. Refuses mailboxes in memory, which no other process can use. */
export async function open(
  url: string,
  create: boolean,
  options: OpenMailboxOptions = {},
): Promise<Mailbox<unknown>> {
  const { engine, ...parsed } = findEngine(url);
  try {
    const file = create ? undefined : engine.file?.(parsed);
    if (file !== undefined && isAbsent(file)) {
      throw new CliError("not_found", `No file ${file}: no message was sent to this mailbox yet`);
    }
    return await openMailbox(url, options);
  } catch (error) {
    throw toCliError(error);
  }
}

/** False also where the file cannot be examined: then opening it reports the reason. */
function isAbsent(file: string): boolean {
  try {
    return statSync(file, { throwIfNoEntry: false }) === undefined;
  } catch {
    return false;
  }
}

/** A mailbox, and the resource by which a group opens and closes it. */
export interface GroupMailbox {
  readonly mailbox: Mailbox<unknown>;
  readonly resource: Resource;
}

/** Options of {@linkcode openForGroup}. */
export interface GroupMailboxOptions {
  /** True to start the group and keep trying when the engine cannot be reached. */
  readonly keepTrying: boolean;
  readonly log: Log;
}

/** Opens a mailbox for a group. */
export async function openForGroup(
  url: string,
  { keepTrying, log }: GroupMailboxOptions,
): Promise<GroupMailbox> {
  try {
    const mailbox = await open(url, true, { log });
    const resource = { name: `mailbox ${mailbox.name}`, stop: () => mailbox.close() };
    return { mailbox, resource };
  } catch (error) {
    const reason = toCliError(error);
    if (!keepTrying || reason.code !== "unavailable") throw reason;
    return openLater(url, reason, log);
  }
}

/** The pause after the first failure is at most this long; each further failure doubles it. */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;

/**
 * Returns a mailbox that its resource opens when the group starts. Until then it refuses calls. It
 * tries until it succeeds or the group stops.
 */
function openLater(url: string, firstReason: CliError, log: Log): GroupMailbox {
  const { scheme } = parseMailboxUrl(url);
  const name = mailboxName(url);
  let reason = firstReason;
  let opened: Mailbox<unknown> | undefined;
  const refuse = () => {
    const text = `Mailbox "${name}" is not open yet: ${reason.message}`;
    return Promise.reject(new MailboxConnectionError(text, { cause: reason }));
  };
  const unopened: Partial<Mailbox<unknown>> = {
    name,
    engine: scheme,
    closed: false,
    receive: refuse,
    approximateCount: refuse,
    stats: refuse,
  };
  const mailbox = new Proxy(unopened as Mailbox<unknown>, {
    get(target, key) {
      const actual = opened ?? target;
      const value = Reflect.get(actual, key);
      return typeof value === "function" ? value.bind(actual) : value;
    },
  });
  const start = async ({ signal }: { readonly signal: AbortSignal }) => {
    const aborted = new Promise<undefined>((resolve) => {
      signal.addEventListener("abort", () => resolve(undefined), { once: true });
    });
    for (let failures = 1; opened === undefined; failures++) {
      // Logs the failures 1, 2, 4, 8 and so on, so that a long outage does not fill the log.
      if (Number.isInteger(Math.log2(failures))) {
        log.warn("mailbox not opened; trying again", { mailbox: name, failures, error: reason });
      }
      const longestMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (failures - 1));
      const pauseMs = longestMs / 2 * (1 + systemRandom.number());
      await systemClock.sleep(pauseMs, { signal }).catch(() => {}); // rejects when the group stops
      if (signal.aborted) return;
      const opening = open(url, true, { log });
      try {
        opened = await Promise.race([opening, aborted]);
      } catch (error) {
        reason = toCliError(error);
        if (reason.code !== "unavailable") throw reason;
      }
      if (signal.aborted && opened === undefined) {
        return void opening.then((late) => late.close(), () => {});
      }
    }
  };
  return {
    mailbox,
    resource: { name: `mailbox ${name}`, start, stop: () => opened?.close() },
  };
}
