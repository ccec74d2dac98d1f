import { checkCount, checkInterval, show } from "../../_checks.ts";
import { systemClock } from "../../clock.ts";
import { safeLog } from "../../library_log.ts";
import { jsonCodec } from "../../mailbox/codec.ts";
import { EngineMailbox } from "../../mailbox/engine_mailbox.ts";
import { InvalidParameterError } from "../../mailbox/errors.ts";
import type { MailboxOptions } from "../../mailbox/mailbox.ts";
import { Backend } from "./_backend.ts";
import type { NatsConnection } from "./nats_connection.ts";
import { NatsEngine } from "./nats_engine.ts";

/** Options of {@linkcode NatsMailbox.open}. */
export interface NatsMailboxOptions extends MailboxOptions {
  /** The queue on the server; its dead letters are in `<name>.dead`. @default {"default"} */
  readonly name?: string;
  /**
   * Above this `send` is refused; nothing is ever evicted. The server keeps the limit with the queue: it
   * holds for all, until somebody opens the queue with another one. @default what the queue has
   */
  readonly maxSize?: number;
  /** The longest body, as JSON in UTF-8; the server's `max_payload` is a limit too. @default {262_144} */
  readonly maxBodyBytes?: number;
  /**
   * No call takes longer than this. Opening a queue retries transient answers of the server for as long,
   * such as "JetStream system temporarily unavailable". @default {5_000}
   */
  readonly callTimeoutMs?: number;
  /**
   * How often a waiting receiver asks anew, in case that the server has forgotten of it; 8 000 at the
   * most. @default {5_000}
   */
  readonly pollIntervalMs?: number;
  /** On how many servers of a cluster a queue is kept, when it is made, up to 5. @default {1} */
  readonly replicas?: number;
}

/** JetStream keeps no stream on more servers. */
const MAX_REPLICAS = 5;

/**
 * A mailbox on a NATS server with JetStream, of version 2.9 or later, or a cluster: shared by the
 * processes of many machines. A stream of messages and one of notes about them are made for each queue.
 * JetStream is no queue of this kind by itself, so some things are as good as they can be:
 *
 * - The server cannot tell a stale receipt from a good one. Each process refuses its own when their time
 *   is over, one second before the server gives the message to others; a verdict that takes longer than
 *   that on its way may hit a message that somebody else has by then.
 * - Where a stream or its consumer was deleted, the next call makes it again. Verdicts about messages of a
 *   deleted stream are refused, and never reach messages that were sent since.
 * - The answer to a receive that is lost with its connection comes again after 30 seconds, and counts as a
 *   delivery.
 * - Order is kept while nothing is given back; what is comes before what is new, in the order in which it
 *   was given back.
 * - Many messages are stored one by one. Where one of them is refused, or not confirmed in time, those
 *   before it are taken back; somebody may have received them by then. A send that fails because the
 *   connection is lost may have been stored; with an id of your own it can be repeated.
 * - A message is buried in two steps, the letter first. After a crash between them it is delivered once
 *   more, and buried without a second letter.
 * - NATS 2.9 at times numbers the second delivery of a message as the first. Its `deliveryCount` is one
 *   too low then, and its checkpoint is not read.
 * - `peek` knows the deliveries of what this process holds, and tells 0 for all others.
 *
 * What a confirmed message survives is decided by the server: a crash of its process in any case, a loss
 * of power with `sync_interval: always` or with replicas on other machines.
 *
 * @example
 * ```ts ignore
 * import { NatsMailbox } from "@lastcall/lastcall/engines/nats";
 *
 * const orders = await NatsMailbox.open<{ item: string }>("nats://localhost", { name: "orders" });
 * await orders.send({ item: "tea" });
 * const [message] = await orders.receive({ waitTimeMs: 20_000 });
 * console.log(message?.body.item);
 * await message?.acknowledge();
 * await orders.close();
 * ```
 */
export class NatsMailbox<T, R = unknown> extends EngineMailbox<T, R, string> {
  private constructor(name: string, engine: NatsEngine, options: NatsMailboxOptions) {
    super(name, engine, jsonCodec(options.maxBodyBytes), options);
  }

  /**
   * Opens a queue of the server at a URL (`nats://` or `tls://`, with several hosts separated by commas),
   * or of a connection of yours.
   *
   * A connection that is handed in is shared by all mailboxes that get it, and is not closed with them.
   * Make it with `maxReconnectAttempts: -1`: one that gives up ends its mailboxes.
   */
  static async open<T, R = unknown>(
    server: string | NatsConnection,
    options: NatsMailboxOptions = {},
  ): Promise<NatsMailbox<T, R>> {
    const { name = "default", clock = systemClock, maxSize } = options;
    const backend = new Backend(checkServer(server), {
      clock,
      log: safeLog(options.log),
      callTimeoutMs: checkInterval("callTimeoutMs", options.callTimeoutMs ?? 5_000),
      pollIntervalMs: checkInterval("pollIntervalMs", options.pollIntervalMs ?? 5_000),
      replicas: checkCount("replicas", options.replicas ?? 1, 1, MAX_REPLICAS),
    });
    const room = maxSize === undefined ? undefined : checkCount("maxSize", maxSize);
    const engine = new NatsEngine(name, backend, room);
    // Checks the rest of the options; the server comes after everything that can be refused.
    const mailbox = new NatsMailbox<T, R>(name, engine, options);
    await backend.open();
    try {
      await engine.greet();
    } catch (error) {
      await engine.close();
      throw error;
    }
    return mailbox;
  }
}

function checkServer(server: string | NatsConnection): string | NatsConnection {
  return typeof server === "string" ? checkUrl(server) : checkConnection(server);
}

function checkUrl(url: string): string {
  const [, login = ""] = /^(?:nats|tls):\/\/(?:(.*)@)?[^/?#@]+\/?$/.exec(url) ?? [undefined, "%"];
  try {
    decodeURIComponent(login);
    return url;
  } catch {
    throw new InvalidParameterError(
      `Invalid URL: expected nats://host:port or tls://host:port, got ${
        show(url.replace(/\/\/.*@/s, "//…@"))
      }`,
    );
  }
}

function checkConnection(connection: NatsConnection): NatsConnection {
  const parts = ["publish", "subscribe", "status"] as const;
  if (parts.every((part) => typeof connection?.[part] === "function")) return connection;
  throw new InvalidParameterError(
    `Invalid connection: expected a URL or a connection like that of @nats-io/transport-node, got ${
      show(connection)
    }`,
  );
}
