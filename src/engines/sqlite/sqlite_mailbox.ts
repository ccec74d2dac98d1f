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
  /** The queue within the file; its dead letters are in `<name>.dead`. @default {"default"} */
  readonly name?: string;
  /** What a confirmed message survives; see {@linkcode Durability}. @default {"normal"} */
  readonly durability?: Durability;
  /** Above this `send` is refused; nothing is ever evicted. @default {Infinity} */
  readonly maxSize?: number;
  /** The longest body, as JSON in UTF-8. @default {262_144} */
  readonly maxBodyBytes?: number;
  /** How often a waiting receiver looks for what other processes have sent. @default {50} */
  readonly pollIntervalMs?: number;
  /** Opens the file. @default {`node:sqlite`, `bun:sqlite` or `better-sqlite3`, whichever is there} */
  readonly driver?: SqliteDriver;
}

/**
 * A mailbox in a file: durable, shared by the processes of a machine, with the whole contract. A file
 * holds any number of queues; each is a mailbox of its own.
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
   * Opens a queue of the file at `path`. A file that is not there is made; one that is not ours is
   * refused with a `MailboxConnectionError` and left as it is.
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
    // Checks the rest of the options; the file comes after everything that can be refused.
    const mailbox = new SqliteMailbox<T, R>(connection, options, async (queue) => {
      const { address } = await import("./_lease_keeping.ts");
      // A driver of the caller's own is a function, and stays here.
      if (address === undefined || options.driver !== undefined) return undefined;
      return { module: address, options: { path: connection.realPath, queue, durability } };
    });
    await connection.open();
    return mailbox;
  }
}

function checkPath(path: string): string {
  // deno-lint-ignore no-control-regex -- these are what is refused
  if (typeof path === "string" && path !== "" && !/^:memory:|^file:|[\0-\x1f]/.test(path)) {
    return path;
  }
  throw new InvalidParameterError(
    `Invalid path: expected that of a file, got ${show(path)}; for messages in memory there is ` +
      "InMemoryMailbox",
  );
}

function checkDurability(value: Durability): Durability {
  if (value === "normal" || value === "full") return value;
  throw new InvalidParameterError(
    `Invalid durability: expected "normal" or "full", got ${show(value)}`,
  );
}
