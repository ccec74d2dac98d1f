// Mailboxes as commands open them: by URL, for the time of the command.

import { existsSync } from "node:fs";
import { type Mailbox, openMailbox, type OpenMailboxOptions, silentLog } from "../mod.ts";
import { parseMailboxUrl } from "../src/engines/mailbox_url.ts";
import { CliError, explain, usageError } from "./_errors.ts";
import type { Io } from "./_io.ts";

const SCHEMES = "sqlite, redis, rediss, postgres, postgresql, nats, tls, sqs, denokv";
const NAMES_MAILBOX = new RegExp(`^(memory|${SCHEMES.replaceAll(", ", "|")}):`, "i");

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
  if (isFile && !create && file !== "" && !existsSync(file)) {
    throw new CliError("not_found", `There is no file ${file}: nothing was sent there yet`);
  }
  try {
    return await openMailbox(url, options);
  } catch (error) {
    throw explain(error);
  }
}
