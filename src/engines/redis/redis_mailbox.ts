import { checkCount, checkInterval } from "../../_checks.ts";
import { systemClock } from "../../clock.ts";
import { safeLog } from "../../library_log.ts";
import { silentLog } from "../../log.ts";
import { jsonCodec } from "../../mailbox/codec.ts";
import type { OffThreadExtender } from "../../mailbox/engine.ts";
import { EngineMailbox } from "../../mailbox/engine_mailbox.ts";
import type { MailboxOptions } from "../../mailbox/mailbox.ts";
import { parseHandle, type RedisDelivery } from "./_delivery.ts";
import type { RedisClient } from "./redis_client.ts";
import { RedisEngine } from "./redis_engine.ts";
import { openRedisLink, RedisLink } from "./redis_link.ts";

/** Options of {@linkcode RedisMailbox.open}. */
export interface RedisMailboxOptions extends MailboxOptions {
  /** The name of the queue. Its dead letters are in `<name>.dead`. @default {"default"} */
  readonly name?: string;
  /** How many messages the queue holds. `send` throws a `MailboxFullError` above. @default {Infinity} */
  readonly maxSize?: number;
  /** The maximum size of a body, in bytes of its JSON in UTF-8. @default {262_144} */
  readonly maxBodyBytes?: number;
  /** After how many milliseconds a call fails. It has no effect after that. @default {5_000} */
  readonly callTimeoutMs?: number;
  /**
   * How often a waiting receiver polls without a notification, in milliseconds: a notification may be
   * lost. @default {5_000}
   */
  readonly pollIntervalMs?: number;
}

/**
 * Stores messages on a Redis server (6.2 or later) or a cluster, shared by processes on many machines. It
 * implements the whole mailbox contract, except transactions.
 *
 * The configuration of the server decides what a sent message survives. With `appendonly yes` and
 * `appendfsync always` it survives a crash; by default a crash may lose the last minutes. Only with
 * `maxmemory-policy noeviction` the server never deletes messages to free memory.
 *
 * @example
 * ```ts ignore
 * import { RedisMailbox } from "@lastcall/lastcall/engines/redis";
 *
 * const orders = await RedisMailbox.open<{ item: string }>("redis://localhost", { name: "orders" });
 * await orders.send({ item: "tea" });
 * const [message] = await orders.receive({ waitTimeMs: 20_000 });
 * console.log(message?.body.item);
 * await message?.acknowledge();
 * await orders.close();
 * ```
 */
export class RedisMailbox<T, R = unknown> extends EngineMailbox<T, R, string> {
  private constructor(name: string, engine: RedisEngine, options: RedisMailboxOptions) {
    super(name, engine, jsonCodec(options.maxBodyBytes), options);
  }

  /**
   * Opens a queue. `server` is the URL of a server (`redis://` or `rediss://`), the URL of a cluster
   * (`redis+cluster://host:6379,other:6379` or `rediss+cluster://`), or a `Redis` or `Cluster` client of
   * `ioredis`. A URL needs the package `ioredis` too, except for a single server on Bun, which has a
   * built-in client.
   *
   * All mailboxes that get the same client share it, and closing a mailbox does not close it. Create it
   * with `maxRetriesPerRequest: 0` and `autoResendUnfulfilledCommands: false`: a client that repeats
   * commands after a broken connection may send a message twice. A `Cluster` needs
   * `retryDelayOnFailover: 0` for the same reason.
   *
   * @throws {InvalidParameterError} when the URL, the client or the name is invalid.
   * @throws {RangeError} when a numeric option is out of range.
   * @throws {MailboxConnectionError} when the server cannot be reached, or another program wrote the keys.
   */
  static async open<T, R = unknown>(
    server: string | RedisClient,
    options: RedisMailboxOptions = {},
  ): Promise<RedisMailbox<T, R>> {
    const { name = "default", clock = systemClock } = options;
    const link = new RedisLink(server, {
      clock,
      log: safeLog(options.log),
      callTimeoutMs: checkInterval("callTimeoutMs", options.callTimeoutMs ?? 5_000),
      random: options.random,
    });
    const engine = new RedisEngine(name, link, {
      maxSize: checkCount("maxSize", options.maxSize ?? Infinity),
      pollIntervalMs: checkInterval("pollIntervalMs", options.pollIntervalMs ?? 5_000),
      detectsOwners: true,
    });
    // The constructor checks the remaining options, before the server is called.
    const mailbox = new RedisMailbox<T, R>(name, engine, options);
    await link.open();
    try {
      await engine.checkFormat();
    } catch (error) {
      await link.close();
      throw error;
    }
    return mailbox;
  }
}

/** Options of {@linkcode openExtender}, as `RedisEngine.offThread` makes them. */
interface ExtenderOptions {
  readonly url: string;
  readonly queue: string;
  readonly callTimeoutMs: number;
}

/** Connects from another thread and extends leases of a queue there. */
export async function openExtender(options: ExtenderOptions): Promise<OffThreadExtender> {
  const { url, queue, callTimeoutMs } = options;
  const link = await openRedisLink(url, { clock: systemClock, log: silentLog, callTimeoutMs });
  const engine = new RedisEngine(queue, link, { maxSize: Infinity, pollIntervalMs: Infinity });
  return {
    // `extend` needs only the receipt of a delivery.
    extend: (handles, visibilityMs) => {
      return engine.extend(handles.map((it) => parseHandle(it) as RedisDelivery), visibilityMs);
    },
    close: () => engine.close(),
  };
}
