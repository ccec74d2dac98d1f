// Mailboxes as commands open them: by URL, for the time of the command.

import { statSync } from "node:fs";
import {
  type Log,
  type Mailbox,
  MailboxConnectionError,
  openMailbox,
  type OpenMailboxOptions,
  silentLog,
  type Support,
  systemClock,
} from "../mod.ts";
import { parseMailboxUrl } from "../src/engines/mailbox_url.ts";
import { CliError, explain, usageError } from "./_errors.ts";
import type { Io } from "./_io.ts";

const SCHEMES =
  "sqlite, redis, rediss, redis+cluster, rediss+cluster, postgres, postgresql, nats, tls, " +
  "sqs, denokv";
const NAMES_MAILBOX = new RegExp(
  `^(memory|${SCHEMES.replaceAll(", ", "|").replaceAll("+", "\\+")}):`,
  "i",
);

/** The environment variable that names a mailbox where none is given. */
export const MAILBOX_VARIABLE = "LASTCALL_MAILBOX";

/**
 * Which mailbox is meant, and the arguments that are left: the first one, or that of the environment
 * when the first one has no scheme of an engine.
 */
export function takeMailbox(
  io: Io,
  given: readonly (string | undefined)[],
): { readonly url: string; readonly rest: readonly string[] } {
  const args = given.filter((it) => it !== undefined);
  const [first, ...rest] = args;
  const fallback = io.env[MAILBOX_VARIABLE];
  if (first !== undefined && (NAMES_MAILBOX.test(first) || !fallback)) return { url: first, rest };
  if (fallback) return { url: fallback, rest: args };
  throw usageError(
    `No mailbox: give its URL as the first argument, as sqlite:./jobs.db, or set ${MAILBOX_VARIABLE}`,
  );
}

/** The same for commands that take nothing else. */
export function onlyMailbox(io: Io, given: string | undefined): string {
  const { url, rest } = takeMailbox(io, [given]);
  if (rest.length === 0) return url;
  throw usageError(`Too many arguments: ${rest[0]} is no mailbox, and one is named already`);
}

/** How {@linkcode withMailbox} opens a mailbox. */
export interface OpenOptions {
  /** False for commands that only look: they do not make the file that they look into. */
  readonly create: boolean;
}

/** Opens a mailbox, lets `use` work with it, and closes it whatever happens. */
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

/** Opens a mailbox that is useful beyond this process. */
export async function open(
  url: string,
  create: boolean,
  options: OpenMailboxOptions = {},
): Promise<Mailbox<unknown>> {
  const { scheme, path } = parseMailboxUrl(url);
  if (scheme === "memory") {
    throw usageError(
      "memory: ends with the process, so nobody else can see it: use sqlite:./jobs.db",
    );
  }
  if (!NAMES_MAILBOX.test(url)) {
    throw usageError(`Unknown scheme "${scheme}" of a mailbox URL: expected one of ${SCHEMES}`);
  }
  const isFile = scheme === "sqlite" || scheme === "denokv";
  const file = path.startsWith("///") ? path.slice(2) : path;
  if (isFile && !create && file !== "" && isMissing(file)) {
    throw new CliError("not_found", `There is no file ${file}: nothing was sent there yet`);
  }
  try {
    return await openMailbox(url, options);
  } catch (error) {
    throw explain(error);
  }
}

/** True where there is no file. One that may not be seen may be there: opening it tells what is wrong. */
function isMissing(file: string): boolean {
  try {
    return statSync(file, { throwIfNoEntry: false }) === undefined;
  } catch {
    return false;
  }
}

/** A mailbox for a group, and the support that opens and closes it. */
export interface GroupMailbox {
  readonly mailbox: Mailbox<unknown>;
  readonly support: Support;
}

/** How {@linkcode openForGroup} opens a mailbox. */
export interface GroupMailboxOptions {
  /** Keep trying when the engine cannot be reached, from the start of the group on. */
  readonly keepTrying: boolean;
  readonly log: Log;
}

/** Opens a mailbox that a group works on and closes. */
export async function openForGroup(
  url: string,
  { keepTrying, log }: GroupMailboxOptions,
): Promise<GroupMailbox> {
  try {
    const mailbox = await open(url, true, { log });
    const support = { name: `mailbox ${mailbox.name}`, stop: () => mailbox.close() };
    return { mailbox, support };
  } catch (error) {
    const reason = explain(error);
    if (!keepTrying || reason.code !== "unavailable") throw reason;
    return openLater(url, reason, log);
  }
}

/** The longest pause after the first failure to open a mailbox; it doubles with each. */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;

/** A mailbox that is opened when its group starts, however long that takes. A stop ends the attempts. */
function openLater(url: string, refusal: CliError, log: Log): GroupMailbox {
  const name = queueOf(url);
  let reason = refusal;
  let opened: Mailbox<unknown> | undefined;
  const refuse = () => {
    const text = `Mailbox "${name}" is not open yet: ${reason.message}`;
    return Promise.reject(new MailboxConnectionError(text, { cause: reason }));
  };
  const unopened: Partial<Mailbox<unknown>> = {
    name,
    engine: parseMailboxUrl(url).scheme,
    closed: false,
    receive: refuse,
    approximateCount: refuse,
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
      if (Number.isInteger(Math.log2(failures))) {
        log.warn(`could not open mailbox "${name}"; trying again`, { error: reason, failures });
      }
      const longestMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (failures - 1));
      const pauseMs = longestMs / 2 * (1 + Math.random());
      await systemClock.sleep(pauseMs, { signal }).catch(() => {}); // a stop ends it
      if (signal.aborted) return;
      const opening = open(url, true, { log });
      try {
        opened = await Promise.race([opening, aborted]);
      } catch (error) {
        reason = explain(error);
        if (reason.code !== "unavailable") throw reason;
      }
      if (signal.aborted && opened === undefined) {
        return void opening.then((late) => late.close(), () => {});
      }
    }
  };
  return {
    mailbox,
    support: { name: `mailbox ${name}`, start, stop: () => opened?.close() },
  };
}

/** The name that the mailbox of a URL has. */
function queueOf(url: string): string {
  const { scheme, path, params } = parseMailboxUrl(url);
  return params.get("queue") ?? (scheme === "sqs" ? path.replace(/.*\//, "") : "default");
}
