import { checkCount, checkInterval, show } from "../../_checks.ts";
import { systemClock } from "../../clock.ts";
import { safeLog } from "../../library_log.ts";
import { jsonCodec } from "../../mailbox/codec.ts";
import { EngineMailbox, type PlanLeaseKeeping } from "../../mailbox/engine_mailbox.ts";
import { InvalidParameterError } from "../../mailbox/errors.ts";
import type { MailboxOptions } from "../../mailbox/mailbox.ts";
import { Backend } from "./_backend.ts";
import type { RedisClient } from "./redis_client.ts";
import { RedisEngine } from "./redis_engine.ts";
import { checkServerUrl } from "./_server_url.ts";

/** Options of {@linkcode RedisMailbox.open}. */
export interface RedisMailboxOptions extends MailboxOptions {
  /** The queue on the server; its dead letters are in `<name>.dead`. @default {"default"} */
  readonly name?: string;
  /** Above this `send` is refused; nothing is ever evicted. @default {Infinity} */
  readonly maxSize?: number;
  /** The longest body, as JSON in UTF-8. @default {262_144} */
  readonly maxBodyBytes?: number;
  /** No call takes longer than this; it fails then, and has no effect later. @default {5_000} */
  readonly callTimeoutMs?: number;
  /**
   * How often a waiting receiver looks although nothing was heard of a message, in case that a
   * notification was lost. @default {5_000}
   */
  readonly pollIntervalMs?: number;
}

/**
 * A mailbox on a Redis server, of version 6.2 or later, or a cluster: shared by the processes of many
 * machines, with the whole contract. What a confirmed message survives is decided by the server: with
 * `appendonly yes` and `appendfsync always` everything, by default the last minutes may be lost in a
 * crash; and only with `maxmemory-policy noeviction` it never deletes messages to make room.
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
  readonly #backend: Backend;

  private constructor(
    name: string,
    backend: Backend,
    engine: RedisEngine,
    options: RedisMailboxOptions,
    planLeaseKeeping: PlanLeaseKeeping,
  ) {
    super(name, engine, jsonCodec(options.maxBodyBytes), options, planLeaseKeeping);
    this.#backend = backend;
  }

  /** Says that the server has no memory left and refuses sends; undefined while it takes them. */
  get trouble(): string | undefined {
    return this.#backend.condition.trouble;
  }

  /**
   * Opens a queue of the server at a URL (`redis://` or `rediss://`), of the cluster at one
   * (`redis+cluster://host:6379,other:6379` or `rediss+cluster://`), or of a client of yours, which is a
   * `Redis` or a `Cluster` of `ioredis`. For a URL that package is needed too, but for a single server on
   * Bun, whose own client is used there.
   *
   * A client that is handed in is shared by all mailboxes that get it, and is not closed with them. Make
   * it with `maxRetriesPerRequest: 0` and `autoResendUnfulfilledCommands: false`: a client that repeats
   * commands after a broken connection may send a message twice. A `Cluster` needs `retryDelayOnFailover: 0`
   * for the same reason.
   */
  static async open<T, R = unknown>(
    server: string | RedisClient,
    options: RedisMailboxOptions = {},
  ): Promise<RedisMailbox<T, R>> {
    const { name = "default", clock = systemClock } = options;
    const backend = new Backend(checkServer(server), {
      clock,
      log: safeLog(options.log),
      callTimeoutMs: checkInterval("callTimeoutMs", options.callTimeoutMs ?? 5_000),
      pollIntervalMs: checkInterval("pollIntervalMs", options.pollIntervalMs ?? 5_000),
    });
    const maxSize = checkCount("maxSize", options.maxSize ?? Infinity);
    const engine = new RedisEngine(name, backend, maxSize);
    // Checks the rest of the options; the server comes after everything that can be refused.
    const mailbox = new RedisMailbox<T, R>(name, backend, engine, options, async (queue) => {
      const { address } = await import("./_lease_keeping.ts");
      if (address === undefined || typeof server !== "string") return undefined;
      const { callTimeoutMs } = backend.options;
      return { module: address, options: { url: server, queue, callTimeoutMs } };
    });
    await backend.open();
    try {
      await engine.greet();
    } catch (error) {
      await backend.close();
      throw error;
    }
    return mailbox;
  }
}

function checkServer(server: string | RedisClient): string | RedisClient {
  return typeof server === "string" ? checkServerUrl(server) : checkClient(server);
}

function checkClient(client: RedisClient): RedisClient {
  if (client !== null && typeof client === "object" && "onclose" in client) {
    throw new InvalidParameterError(
      "Invalid client: one of Bun's own cannot be shared with a mailbox; pass its URL, and the mailbox " +
        "makes such a one for itself",
    );
  }
  const parts = ["eval", "evalsha", "duplicate"] as const;
  if (parts.every((part) => typeof client?.[part] === "function")) return client;
  throw new InvalidParameterError(
    `Invalid client: expected a URL or a client like that of ioredis, got ${show(client)}`,
  );
}
