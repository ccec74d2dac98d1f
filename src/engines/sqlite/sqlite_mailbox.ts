import { checkCount, checkInterval, show } from "../../_checks.ts";
import { systemClock } from "../../clock.ts";
import { jsonCodec } from "../../mailbox/codec.ts";
import { EngineMailbox, type PlanLeaseKeeping } from "../../mailbox/engine_mailbox.ts";
import { InvalidParameterError } from "../../mailbox/errors.ts";
import type { MailboxOptions } from "../../mailbox/mailbox.ts";
import { Connection } from "./_connection.ts";
import type { SqliteDriver } from "./database.ts";
import { anyDriver } from "./drivers/mod.ts";
import type { Durability } from "./_open_file.ts";
import { SqliteEngine } from "./sqlite_engine.ts";

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
  /** How often a waiting receiver polls for changes by other processes, in milliseconds. @default {50} */
  readonly pollIntervalMs?: number;
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
  private constructor(
    connection: Connection,
    options: SqliteMailboxOptions,
    planLeaseKeeping: PlanLeaseKeeping,
  ) {
    const { name = "default", clock = systemClock, maxSize = Infinity, maxBodyBytes } = options;
    const engine = new SqliteEngine(name, connection, clock, checkCount("maxSize", maxSize));
    super(name, engine, jsonCodec(maxBodyBytes), options, planLeaseKeeping);
  }

  /**
   * Opens a queue of the file at `path` and creates the file if it does not exist.
   *
   * @throws {InvalidParameterError} when the path, the name or the durability is invalid.
   * @throws {RangeError} when a numeric option is out of range.
   * @throws {MailboxConnectionError} when the file cannot be opened, or belongs to another program; it is
   * not changed then.
   */
  static async open<T, R = unknown>(
    path: string,
    options: SqliteMailboxOptions = {},
  ): Promise<SqliteMailbox<T, R>> {
    const {
      clock = systemClock,
      driver = (path: string) => anyDriver(path),
      durability = "normal",
      pollIntervalMs = 50,
    } = options;
    const connection = new Connection(
      checkPath(path),
      { clock, driver, durability: checkDurability(durability) },
      checkInterval("pollIntervalMs", pollIntervalMs),
    );
    // The constructor checks the remaining options, before the file is opened.
    const mailbox = new SqliteMailbox<T, R>(connection, options, async (queue) => {
      const { address } = await import("./_lease_keeping.ts");
      // A driver of the caller is a function, which cannot be copied to another thread.
      if (address === undefined || options.driver !== undefined) return undefined;
      return { module: address, options: { path: connection.realPath, queue, durability } };
    });
    await connection.open();
    return mailbox;
  }
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

function checkDurability(value: Durability): Durability {
  if (value === "normal" || value === "full") return value;
  throw new InvalidParameterError(
    `Invalid durability: expected "normal" or "full", got ${show(value)}`,
  );
}
