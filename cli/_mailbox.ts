// Opens the mailbox of a command by its URL.

import { statSync } from "node:fs";
import { type Mailbox, openMailbox, type OpenMailboxOptions, silentLog } from "../mod.ts";
import { parseMailboxUrl } from "../src/engines/_kit/mailbox_url.ts";
import { CliError, toCliError, usageError } from "./_errors.ts";
import type { Io } from "./_io.ts";

const SCHEMES =
  "sqlite, redis, rediss, redis+cluster, rediss+cluster, postgres, postgresql, nats, tls, " +
  "sqs, denokv";
const HAS_SCHEME = new RegExp(
  `^(memory|${SCHEMES.replaceAll(", ", "|").replaceAll("+", "\\+")}):`,
  "i",
);

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
  if (first !== undefined && (HAS_SCHEME.test(first) || !fallback)) return { url: first, rest };
  if (fallback) return { url: fallback, rest: args };
  throw usageError(
    "No mailbox: give its URL as the first argument, as sqlite:./jobs.db, or set LASTCALL_MAILBOX",
  );
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

/** Opens a mailbox. Refuses `memory:`, which no other process can use. */
export async function open(
  url: string,
  create: boolean,
  options: OpenMailboxOptions = {},
): Promise<Mailbox<unknown>> {
  const { scheme, path } = parseMailboxUrl(url);
  if (scheme === "memory") {
    throw usageError("memory: ends with the process: use a file, as sqlite:./jobs.db, or a server");
  }
  if (!HAS_SCHEME.test(url)) {
    throw usageError(`Unknown scheme "${scheme}" of a mailbox URL: expected one of ${SCHEMES}`);
  }
  const isFile = scheme === "sqlite" || scheme === "denokv";
  const file = path.startsWith("///") ? path.slice(2) : path;
  if (isFile && !create && file !== "" && isAbsent(file)) {
    throw new CliError("not_found", `No file ${file}: no message was sent to this mailbox yet`);
  }
  try {
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
