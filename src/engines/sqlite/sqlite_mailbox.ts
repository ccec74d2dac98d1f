import { checkCount, checkInterval, checkOneOf, show } from "../../_checks.ts";
import { systemClock } from "../../clock.ts";
import { safeLog } from "../../library_log.ts";
import { jsonCodec } from "../../mailbox/codec.ts";
import type { OffThreadExtender } from "../../mailbox/engine.ts";
import { EngineMailbox } from "../../mailbox/engine_mailbox.ts";
import { InvalidParameterError } from "../../mailbox/errors.ts";
import type { MailboxOptions } from "../../mailbox/mailbox.ts";
import { systemRandom } from "../../random.ts";
import { Connection } from "./_connection.ts";
import { anyDriver, type SqliteDriver } from "./drivers.ts";
import type { Durability, ExtenderOptions } from "./_file.ts";
import { Owners } from "./_owners.ts";
import { SqliteEngine } from "./sqlite_engine.ts";
import type { SqliteDelivery } from "./_statements.ts";

/** Options of {@linkcode SqliteMailbox.open}. */
export interface SqliteMailboxOptions extends MailboxOptions {
  /** The name of the queue. Its dead letters are in `<name>.dead`. @default {"default"} */
  readonly name?: string;
  /** What a sent message survives; see {@linkcode Durability}. @default {"normal"} */
  readonly durability?: Durability;
  /** How many messages the queue holds. `send` throws a `MailboxFullError` above. @default {Infinity} */
  readonly maxSize?: number;
  /** The maximum size of a body, in bytes of its JSON in UTF-8. @default {262_144} */
  readonly maxBodyBytes?: number;
  /**
   * How often a waiting receiver or a running loop looks for changes by other processes and by transactions of
   * the caller, in milliseconds, varied by a quarter. One look costs some microseconds. @default {50}
   */
  readonly pollIntervalMs?: number;
  /**
   * Stores the messages in a database of your program, beside its tables, so that `withTransaction` can send
   * and acknowledge together with your own changes. Without it, a file that has other tables is refused.
   *
   * The tables of the mailbox have names that begin with `lastcall_`, and their version is in a table of its
   * own: `user_version` and `application_id` of the file are not changed. The file is switched to WAL mode,
   * which it keeps. Tell tools that synchronize a schema to ignore `lastcall_*`.
   *
   * Begin transactions with `BEGIN IMMEDIATE`. A transaction that reads first and writes later fails with
   * "database is locked" when a worker has written in between. Keep transactions short: workers wait for them.
   *
   * @default {false}
   */
  readonly sharedFile?: boolean;
  /** Opens the file. @default {the first available of `node:sqlite`, `bun:sqlite`, `better-sqlite3`} */
  readonly driver?: SqliteDriver;
}

/**
 * Stores messages durably in a file, shared by the processes of one machine. It implements the whole
 * mailbox contract. A file contains any number of queues; each is a separate mailbox.
 *
 * @example
 * ```ts
 * import { mkdtemp, rm } from "node:fs/promises";
 * import { tmpdir } from "node:os";
 * import { join } from "node:path";
 * import { SqliteMailbox } from "@lastcall/lastcall/engines/sqlite";
 *
 * const folder = await mkdtemp(join(tmpdir(), "jobs-"));
 * const orders = await SqliteMailbox.open<{ item: string }>(join(folder, "jobs.db"), {
 *   name: "orders",
 * });
 * await orders.send({ item: "tea" });
 * const [message] = await orders.receive();
 * console.log(message?.body.item);
 * await message?.acknowledge();
 * await orders.close();
 * await rm(folder, { recursive: true });
 * ```
 */
export class SqliteMailbox<T, R = unknown> extends EngineMailbox<T, R, string> {
  private constructor(name: string, engine: SqliteEngine, options: SqliteMailboxOptions) {
    super(name, engine, jsonCodec(options.maxBodyBytes), options);
  }

  /**
   * Opens a queue of the file at `path` and creates the file if it does not exist.
   *
   * @throws {InvalidParameterError} when the path, the name or the durability is invalid.
   * @throws {RangeError} when a numeric option is out of range.
   * @throws {MailboxConnectionError} when the file cannot be opened, or belongs to another program and
   * `sharedFile` is false; it is not changed then.
   */
  static async open<T, R = unknown>(
    path: string,
    options: SqliteMailboxOptions = {},
  ): Promise<SqliteMailbox<T, R>> {
    const { name = "default", clock = systemClock, random = systemRandom } = options;
    const { driver, durability = "normal", sharedFile = false } = options;
    const open = driver ?? anyDriver;
    const connection = new Connection(
      checkPath(path),
      {
        clock,
        random,
        driver: open,
        durability: checkOneOf("durability", durability, ["normal", "full"]),
        sharedFile: checkOneOf("sharedFile", sharedFile, [false, true]),
      },
      checkInterval("pollIntervalMs", options.pollIntervalMs ?? 50),
    );
    const log = safeLog(options.log);
    const engine = new SqliteEngine(name, connection, {
      clock,
      random,
      owners: new Owners(connection, { queue: name, driver: open, clock, random, log }),
      maxSize: checkCount("maxSize", options.maxSize ?? Infinity),
      offThread: driver === undefined, // a function cannot be copied to another thread
    });
    // The constructor checks the remaining options, before the file is opened.
    const mailbox = new SqliteMailbox<T, R>(name, engine, options);
    await connection.open();
    return mailbox;
  }
}

/** Opens the existing file on another thread, and extends leases of the queue there. */
export async function openExtender(options: ExtenderOptions): Promise<OffThreadExtender> {
  const { path, queue, durability, sharedFile = false } = options;
  const shared = { clock: systemClock, random: systemRandom };
  const file = { ...shared, driver: anyDriver, durability, sharedFile, create: false };
  const connection = new Connection(path, file, Infinity);
  await connection.open();
  const engine = new SqliteEngine(queue, connection, { ...shared, maxSize: Infinity });
  return {
    extend: (handles, visibilityMs) => engine.extend(handles.map(deliveryOf), visibilityMs),
    close: () => engine.close(),
  };
}

/** Returns the part of a delivery that `extend` needs. */
function deliveryOf(receiptHandle: string): SqliteDelivery {
  const [seq, nonce] = receiptHandle.split("-").map(Number);
  return { seq, nonce } as SqliteDelivery;
}

function checkPath(path: string): string {
  // deno-lint-ignore no-control-regex -- a path must not contain control characters
  if (typeof path === "string" && path !== "" && !/^:memory:|^file:|[\0-\x1f]/.test(path)) {
    return path;
  }
  throw new InvalidParameterError(
    `Invalid path: expected that of a file, got ${
      show(path)
    }; use InMemoryMailbox for messages in ` +
      "memory",
  );
}
