import { checkCount, checkInterval } from "../../_checks.ts";
import { systemClock } from "../../clock.ts";
import { safeLog } from "../../library_log.ts";
import { jsonCodec } from "../../mailbox/codec.ts";
import { EngineMailbox, type PlanLeaseKeeping } from "../../mailbox/engine_mailbox.ts";
import type { MailboxOptions } from "../../mailbox/mailbox.ts";
import type { SqlClient } from "./client.ts";
import { Database } from "./_database.ts";
import { PostgresEngine } from "./postgres_engine.ts";
import { checkSchema } from "./_schema.ts";

/** Options of {@linkcode PostgresMailbox.open}. */
export interface PostgresMailboxOptions extends MailboxOptions {
  /** The queue within the schema; its dead letters are in `<name>.dead`. @default {"default"} */
  readonly name?: string;
  /** The schema that holds the table. @default {"lastcall"} */
  readonly schema?: string;
  /** Makes the table and brings it up to date; with false it is only checked. @default {true} */
  readonly migrate?: boolean;
  /** Above this `send` is refused; nothing is ever evicted. @default {Infinity} */
  readonly maxSize?: number;
  /** The longest body, as JSON in UTF-8. @default {262_144} */
  readonly maxBodyBytes?: number;
  /** How long a call may take before it fails with a `MailboxConnectionError`. @default {5_000} */
  readonly callTimeoutMs?: number;
  /**
   * How many connections are made at the most, beside the one that listens. Mailboxes with the same URL
   * and the same of these options share them. A client that is handed in has its own number.
   * @default {4}
   */
  readonly maxConnections?: number;
  /** How often a waiting receiver looks even though nobody has notified it. @default {2_000} */
  readonly pollIntervalMs?: number;
}

/**
 * A mailbox in a PostgreSQL table: durable, shared by the processes of many machines, with the whole
 * contract. A schema holds any number of queues; each is a mailbox of its own.
 *
 * @example
 * ```ts ignore
 * import { PostgresMailbox } from "@lastcall/lastcall/engines/postgres";
 *
 * const orders = await PostgresMailbox.open<{ item: string }>("postgres://localhost/shop", {
 *   name: "orders",
 * });
 * await orders.send({ item: "tea" });
 * const [message] = await orders.receive();
 * console.log(message?.body.item);
 * await message?.acknowledge();
 * await orders.close();
 * ```
 *
 * @example With a client that is there already, and that `close` does not end
 * ```ts ignore
 * import postgres from "postgres";
 * import { PostgresMailbox } from "@lastcall/lastcall/engines/postgres";
 *
 * const sql = postgres("postgres://localhost/shop");
 * const orders = await PostgresMailbox.open(sql, { name: "orders" });
 * await orders.close();
 * await sql.end();
 * ```
 */
export class PostgresMailbox<T, R = unknown> extends EngineMailbox<T, R, string> {
  private constructor(
    name: string,
    engine: PostgresEngine,
    options: PostgresMailboxOptions,
    planLeaseKeeping: PlanLeaseKeeping,
  ) {
    super(name, engine, jsonCodec(options.maxBodyBytes), options, planLeaseKeeping);
  }

  /**
   * Opens a queue of the database behind a URL or a client of the package `postgres`, and makes the
   * table where it is not there. A schema that is newer than this package is refused with a
   * `MailboxConnectionError` and left as it is.
   */
  static async open<T, R = unknown>(
    target: string | SqlClient,
    options: PostgresMailboxOptions = {},
  ): Promise<PostgresMailbox<T, R>> {
    const { name = "default", clock = systemClock } = options;
    const log = safeLog(options.log);
    const callTimeoutMs = checkInterval("callTimeoutMs", options.callTimeoutMs ?? 5_000);
    const engineOptions = {
      maxSize: checkCount("maxSize", options.maxSize ?? Infinity),
      pollIntervalMs: checkInterval("pollIntervalMs", options.pollIntervalMs ?? 2_000),
      callTimeoutMs,
      clock,
      log,
    };
    const databaseOptions = {
      target,
      schema: checkSchema(options.schema ?? "lastcall"),
      maxConnections: options.maxConnections ?? 4,
      callTimeoutMs,
      clock,
    };
    const database = Database.of(databaseOptions, log);
    // Checks the rest of the options; the server comes after everything that can be refused.
    const engine = new PostgresEngine(name, database, engineOptions);
    const mailbox = new PostgresMailbox<T, R>(name, engine, options, async (queue) => {
      const { address } = await import("./_lease_keeping.ts");
      if (address === undefined || typeof target !== "string") return undefined;
      const { schema } = databaseOptions;
      return { module: address, options: { url: target, schema, queue, callTimeoutMs } };
    });
    await database.open(options.migrate ?? true);
    return mailbox;
  }
}
