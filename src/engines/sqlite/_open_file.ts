import type { Clock } from "../../clock.ts";
import type { SqliteDatabase, SqliteDriver } from "./database.ts";
import { connectionError } from "./_errors.ts";
import { FileIdentity } from "./_file_identity.ts";
import { refuseForeignFile } from "./_file_header.ts";
import { BLOCKING_MS, patiently } from "./_patience.ts";
import { migrate } from "./_schema.ts";
import { prepareAll, type Statements } from "./_statements.ts";

/**
 * What a confirmed change survives. `"normal"`: the end of the process, also by `kill -9`. `"full"`: a
 * power failure and a crash of the machine too, for the price of waiting for the disk at every commit.
 */
export type Durability = "normal" | "full";

/** How to open a file. */
export interface OpenFileOptions {
  readonly driver: SqliteDriver;
  readonly durability: Durability;
  readonly clock: Clock;
  /** Makes the file where it is not there. @default {true} */
  readonly create?: boolean;
}

/** A file that is ours and up to date. */
export interface OpenFile {
  readonly database: SqliteDatabase;
  readonly statements: Statements;
  readonly realPath: string;
  readonly identity: FileIdentity;
}

/** A long queue of changes is written back in larger, rarer steps than SQLite's default of 1 000. */
const CHECKPOINT_PAGES = 4_000;

/** Opens a file, makes it where it is not there unless told otherwise, and refuses what is not ours without touching it. */
export async function openFile(path: string, options: OpenFileOptions): Promise<OpenFile> {
  let database: SqliteDatabase | undefined;
  try {
    await refuseForeignFile(path, options.create);
    const opened = database = await options.driver(path);
    database.exec(`PRAGMA busy_timeout = ${BLOCKING_MS}`);
    await patiently(options.clock, () => prepareFile(opened, path, options.durability));
    const [main] = database.prepare("PRAGMA database_list").all() as { readonly file: string }[];
    const realPath = main!.file;
    const identity = await FileIdentity.of(realPath);
    return { database, statements: prepareAll(database), realPath, identity };
  } catch (error) {
    database?.close();
    throw connectionError(path, error);
  }
}

/** The tables come before the journal mode: nothing is written before the file is known to be ours. */
function prepareFile(database: SqliteDatabase, path: string, durability: Durability): void {
  migrate(database, path);
  database.exec("PRAGMA journal_mode = WAL");
  database.exec(`PRAGMA synchronous = ${durability}`);
  if (durability === "full") database.exec("PRAGMA fullfsync = ON"); // macOS needs to be told
  database.exec(`PRAGMA wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
}
