import type { Clock } from "../../clock.ts";
import { errorText } from "../../errors.ts";
import type { Maybe } from "../../mailbox/engine.ts";
import { isMailboxError, MailboxConnectionError } from "../../mailbox/errors.ts";
import { type Random, systemRandom } from "../../random.ts";
import type { SqliteDatabase, SqliteDriver } from "./drivers.ts";
import { checkFileHeader, FileIdentity } from "./_file_identity.ts";
import { migrate, migrateShared, SHARED_PREFIX } from "./_schema.ts";
import { prepareAll, type Statements } from "./_statements.ts";

/**
 * What a committed change survives. `"normal"`: the end of the process, also by `kill -9`. `"full"`: also a
 * power failure and a crash of the machine; every commit then waits for the disk.
 */
export type Durability = "normal" | "full";

/** Options of {@linkcode openFile}. */
export interface OpenFileOptions {
  readonly driver: SqliteDriver;
  readonly durability: Durability;
  readonly clock: Clock;
  /** Varies the pauses while another process locks the file. @default {systemRandom} */
  readonly random?: Random;
  /** Creates the file if it does not exist. @default {true} */
  readonly create?: boolean;
  /** Accepts a database of another program, and stores messages beside its tables. @default {false} */
  readonly sharedFile?: boolean;
}

/** What another thread needs to extend leases. It is copied to that thread. */
export interface ExtenderOptions {
  readonly path: string;
  readonly queue: string;
  readonly durability: Durability;
  readonly sharedFile?: boolean;
}

/** An open mailbox file with the current schema. */
export interface OpenFile {
  readonly database: SqliteDatabase;
  readonly statements: Statements;
  /** What the names of the tables begin with. */
  readonly prefix: string;
  readonly realPath: string;
  readonly identity: FileIdentity;
}

/** Pages of the WAL before SQLite writes them back. SQLite's default of 1 000 makes more, smaller steps. */
const CHECKPOINT_PAGES = 4_000;

/** How long another process may lock the file before a call fails. */
const BUSY_TIMEOUT_MS = 5_000;

/** How long SQLite itself waits for a lock, which blocks the event loop. Most locks are shorter. */
const BLOCKING_MS = 5;

const BUSY_DELAY_MS = { min: 1, max: 50 } as const;

/** Opens a file and, unless `create` is false, creates it. Throws for a file of another program, unchanged. */
export async function openFile(path: string, options: OpenFileOptions): Promise<OpenFile> {
  let database: SqliteDatabase | undefined;
  try {
    await checkFileHeader(path, options);
    const opened = database = await options.driver(path);
    database.exec(`PRAGMA busy_timeout = ${BLOCKING_MS}`);
    await retryWhileBusy(options, () => prepareFile(opened, path, options));
    const [main] = database.prepare("PRAGMA database_list").all() as { readonly file: string }[];
    const realPath = main!.file;
    const identity = await FileIdentity.of(realPath);
    const prefix = options.sharedFile ? SHARED_PREFIX : "";
    return { database, statements: prepareAll(database, prefix), prefix, realPath, identity };
  } catch (error) {
    database?.close();
    throw connectionError(path, error);
  }
}

/** `migrate` comes first: it throws for a file of another program before the journal mode is written. */
function prepareFile(
  database: SqliteDatabase,
  path: string,
  { durability, sharedFile }: Pick<OpenFileOptions, "durability" | "sharedFile">,
): void {
  if (sharedFile) migrateShared(database, path);
  else migrate(database, path);
  database.exec("PRAGMA journal_mode = WAL");
  database.exec(`PRAGMA synchronous = ${durability}`);
  if (durability === "full") database.exec("PRAGMA fullfsync = ON"); // macOS does not flush its disk cache otherwise
  database.exec(`PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
}

/**
 * Runs `act`, and repeats it while another process locks the file. The delays do not block the event loop,
 * so that the process extends leases and handles signals meanwhile.
 */
export function retryWhileBusy<T>(
  options: Pick<OpenFileOptions, "clock" | "random">,
  act: () => T,
): Maybe<T> {
  try {
    return act();
  } catch (error) {
    if (!isBusy(error)) throw error;
    return retry(options, act);
  }
}

async function retry<T>(
  { clock, random = systemRandom }: Pick<OpenFileOptions, "clock" | "random">,
  act: () => T,
): Promise<T> {
  const endsAt = clock.monotonic() + BUSY_TIMEOUT_MS;
  const { min, max } = BUSY_DELAY_MS;
  for (let delayMs: number = min;; delayMs = Math.min(2 * delayMs, max)) {
    await clock.sleep(delayMs * (0.5 + random.number()));
    try {
      return act();
    } catch (error) {
      if (!isBusy(error) || clock.monotonic() >= endsAt) throw error;
    }
  }
}

/** Returns true when another connection holds the lock. Drivers agree on the text of this error only. */
function isBusy(error: unknown): boolean {
  return error instanceof Error && /database is locked/.test(error.message);
}

/** Converts an error of the driver to a `MailboxConnectionError`. */
export function connectionError(path: string, error: unknown): Error {
  if (isMailboxError(error)) return error;
  const text = error instanceof Error ? error.message : errorText(error);
  const [, advice] = ADVICE.find(([pattern]) => pattern.test(text)) ?? [];
  return new MailboxConnectionError(
    `The SQLite file "${path}" failed: ${text}${advice === undefined ? "" : `: ${advice}`}`,
    { cause: error },
  );
}

/** What to do about an error, by its text: drivers and runtimes agree on the text only. */
const ADVICE: readonly (readonly [text: RegExp, advice: string])[] = [
  [
    /database is locked/,
    "another connection has held a write transaction for too long; find and end it",
  ],
  [
    /EACCES|EPERM|unable to open/,
    "give this process the right to read and write the file and its folder",
  ],
  [/disk is full/, "free some space on its disk; the change was rolled back"],
  [/readonly/, "give this process the right to write the file and its folder"],
  [/EISDIR/, "it is a folder; name a file"],
  [/ENOTDIR/, "a part of its path is a file and not a folder; choose another path"],
  [/ENOENT|directory does not exist/, "create the folder first"],
  [/malformed/, "restore it from a backup, or recover it with sqlite3"],
];
