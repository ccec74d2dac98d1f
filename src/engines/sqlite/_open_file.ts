import type { Clock } from "../../clock.ts";
import { BLOCKING_MS, retryWhileBusy } from "./_busy_retry.ts";
import type { SqliteDatabase, SqliteDriver } from "./database.ts";
import { connectionError } from "./_errors.ts";
import { FileIdentity } from "./_file_identity.ts";
import { checkFileHeader } from "./_file_header.ts";
import { migrate } from "./_schema.ts";
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
  /** Creates the file if it does not exist. @default {true} */
  readonly create?: boolean;
}

/** An open mailbox file with the current schema. */
export interface OpenFile {
  readonly database: SqliteDatabase;
  readonly statements: Statements;
  readonly realPath: string;
  readonly identity: FileIdentity;
}

/** Pages of the WAL before SQLite writes them back. SQLite's default of 1 000 makes more, smaller steps. */
const CHECKPOINT_PAGES = 4_000;

/** Opens a file and, unless `create` is false, creates it. Throws for a file of another program, unchanged. */
export async function openFile(path: string, options: OpenFileOptions): Promise<OpenFile> {
  let database: SqliteDatabase | undefined;
  try {
    await checkFileHeader(path, options.create);
    const opened = database = await options.driver(path);
    database.exec(`PRAGMA busy_timeout = ${BLOCKING_MS}`);
    await retryWhileBusy(options.clock, () => prepareFile(opened, path, options.durability));
    const [main] = database.prepare("PRAGMA database_list").all() as { readonly file: string }[];
    const realPath = main!.file;
    const identity = await FileIdentity.of(realPath);
    return { database, statements: prepareAll(database), realPath, identity };
  } catch (error) {
    database?.close();
    throw connectionError(path, error);
  }
}

/** `migrate` comes first: it throws for a file of another program before the journal mode is written. */
function prepareFile(database: SqliteDatabase, path: string, durability: Durability): void {
  migrate(database, path);
  database.exec("PRAGMA journal_mode = WAL");
  database.exec(`PRAGMA synchronous = ${durability}`);
  if (durability === "full") database.exec("PRAGMA fullfsync = ON"); // macOS does not flush its disk cache otherwise
  database.exec(`PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
}
