import { checkCount, checkInterval } from "../../_checks.ts";
import { systemClock } from "../../clock.ts";
import { silentLog } from "../../log.ts";
import { safeLog } from "../../library_log.ts";
import { jsonCodec } from "../../mailbox/codec.ts";
import type { OffThreadExtender } from "../../mailbox/engine.ts";
import { EngineMailbox } from "../../mailbox/engine_mailbox.ts";
import type { MailboxOptions } from "../../mailbox/mailbox.ts";
import { systemRandom } from "../../random.ts";
import type { SqlClient } from "./client.ts";
import { type ExtenderOptions, PostgresEngine } from "./postgres_engine.ts";
import { openPostgresLink, PostgresLink } from "./postgres_link.ts";
import { checkSchema } from "./_schema.ts";
import type { PostgresDelivery } from "./_settlements.ts";

/** Options of {@linkcode PostgresMailbox.open}. */
export interface PostgresMailboxOptions extends MailboxOptions {
  /** The name of the queue. Its dead letters are in `<name>.dead`. @default {"default"} */
  readonly name?: string;
  /** The schema that contains the table. @default {"lastcall"} */
  readonly schema?: string;
  /** Creates and migrates the table. With false, `open` only checks its version. @default {true} */
  readonly migrate?: boolean;
  /** How many messages the queue holds. `send` throws a `MailboxFullError` above. @default {Infinity} */
  readonly maxSize?: number;
  /** The maximum size of a body, in bytes of its JSON in UTF-8. @default {262_144} */
  readonly maxBodyBytes?: number;
  /** After how many milliseconds a call fails with a `MailboxConnectionError`. @default {5_000} */
  readonly callTimeoutMs?: number;
  /**
   * The maximum number of connections, beside the one for notifications. Mailboxes with the same URL,
   * schema, `callTimeoutMs` and `maxConnections` share them. A client that you pass has its own limit.
   * @default {4}
   */
  readonly maxConnections?: number;
  /** How often a waiting receiver polls without a notification, in milliseconds. @default {2_000} */
  readonly pollIntervalMs?: number;
}

/**
 * Stores messages durably in a PostgreSQL table, shared by processes on many machines. It implements the
 * whole mailbox contract. A schema contains any number of queues; each is a separate mailbox.
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
 * @example With an existing client, which `close` does not end
 * ```ts ignore
 * import postgres from "postgres";
 * import { PostgresMailbox } from "@lastcall/lastcall/engines/postgres";
 *
 * const sql = postgres("postgres://localhost/shop");
 * const orders = await PostgresMailbox.open(sql, { name: "orders" });
 * await orders.close();
 * await sql.end();
 * ```
 *
 * `withTransaction` takes the transaction of postgres.js (`sql` inside `sql.begin`), of pg (a client after
 * BEGIN), of Drizzle on either of them, or of Kysely. The transaction must be in the database of the mailbox.
 *
 * - A duplicate, a full queue and a stale receipt handle leave the transaction usable. An error of the database
 *   aborts it, and is thrown as the client throws it, so that a retry can look at its SQLSTATE.
 * - Until the commit it delays only sends of the same `id`. Messages with a `key` join the line of their key
 *   after the commit. `maxSize` counts committed messages, so that concurrent transactions may exceed it.
 * - In the isolation levels above READ COMMITTED, an acknowledgement fails with SQLSTATE 40001 when the lease
 *   was extended after the transaction began. Run the transaction again then.
 *
 * @example Effects in the database happen exactly once
 * ```ts ignore
 * import postgres from "postgres";
 * import { MailboxLoop } from "@lastcall/lastcall";
 * import { PostgresMailbox } from "@lastcall/lastcall/engines/postgres";
 *
 * const sql = postgres("postgres://localhost/shop");
 * const orders = await PostgresMailbox.open<{ item: string }>(sql, { name: "orders" });
 * const loop = new MailboxLoop<{ item: string }>({
 *   mailbox: orders,
 *   handler: (message) =>
 *     sql.begin(async (tx) => {
 *       await tx`insert into sales (item) values (${message.body.item})`;
 *       await message.withTransaction(tx).acknowledge();
 *     }),
 * });
 * ```
 */
export class PostgresMailbox<T, R = unknown> extends EngineMailbox<T, R, string> {
  private constructor(name: string, engine: PostgresEngine, options: PostgresMailboxOptions) {
    super(name, engine, jsonCodec(options.maxBodyBytes), options);
  }

  /**
   * Opens a queue and creates the table if it does not exist. `target` is the URL of a database or a client
   * of the package `postgres`.
   *
   * @throws {InvalidParameterError} when the URL, the client, the schema or the name is invalid.
   * @throws {RangeError} when a numeric option is out of range.
   * @throws {MailboxConnectionError} when the server cannot be reached, or the schema is newer than this
   * package; nothing is changed then.
   */
  static async open<T, R = unknown>(
    target: string | SqlClient,
    options: PostgresMailboxOptions = {},
  ): Promise<PostgresMailbox<T, R>> {
    const { name = "default", clock = systemClock, random = systemRandom } = options;
    const log = safeLog(options.log);
    const schema = checkSchema(options.schema ?? "lastcall");
    const callTimeoutMs = checkInterval("callTimeoutMs", options.callTimeoutMs ?? 5_000);
    const maxConnections = options.maxConnections ?? 4;
    const link = PostgresLink.of({ target, schema, maxConnections, callTimeoutMs, clock }, log);
    const engine = new PostgresEngine(name, link, {
      maxSize: checkCount("maxSize", options.maxSize ?? Infinity),
      pollIntervalMs: checkInterval("pollIntervalMs", options.pollIntervalMs ?? 2_000),
      callTimeoutMs,
      clock,
      random,
      log,
      registers: true,
      offThread: typeof target === "string" ? { url: target, schema } : undefined,
    });
    // The constructor checks the remaining options, before the server is called.
    const mailbox = new PostgresMailbox<T, R>(name, engine, options);
    await link.open(options.migrate ?? true);
    return mailbox;
  }
}

/** Connects to the server from another thread, and extends leases of the queue there. */
export async function openExtender(options: ExtenderOptions): Promise<OffThreadExtender> {
  const { url: target, schema, queue, callTimeoutMs } = options;
  const shared = { callTimeoutMs, clock: systemClock };
  const linkOptions = { ...shared, target, schema, maxConnections: 1 };
  const link = await openPostgresLink(linkOptions, false, silentLog);
  const engine = new PostgresEngine(queue, link, {
    ...shared,
    random: systemRandom,
    maxSize: Infinity,
    pollIntervalMs: Infinity,
    log: silentLog,
  });
  return {
    extend: (handles, visibilityMs) => engine.extend(handles.map(deliveryOf), visibilityMs),
    close: () => engine.close(),
  };
}

/**
 * Returns the part of a delivery that `extend` needs. This thread does not know which messages are locked by a
 * transaction, so it waits for none.
 */
function deliveryOf(receiptHandle: string): PostgresDelivery {
  const [number, nonce] = receiptHandle.split("-");
  return { number, nonce, inTransaction: true } as PostgresDelivery;
}
