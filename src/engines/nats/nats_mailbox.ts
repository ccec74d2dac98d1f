import { checkCount, checkInterval, show } from "../../_checks.ts";
import { systemClock } from "../../clock.ts";
import { safeLog } from "../../library_log.ts";
import { jsonCodec } from "../../mailbox/codec.ts";
import { EngineMailbox } from "../../mailbox/engine_mailbox.ts";
import { InvalidParameterError } from "../../mailbox/errors.ts";
import type { MailboxOptions } from "../../mailbox/mailbox.ts";
import { systemRandom } from "../../random.ts";
import { redactUrl } from "../_kit/mailbox_url.ts";
import { type NatsConnection, SharedConnection } from "./nats_connection.ts";
import { NatsEngine } from "./nats_engine.ts";

/** Options of {@linkcode NatsMailbox.open}. */
export interface NatsMailboxOptions extends MailboxOptions {
  /** The queue on the server. Its dead letters are in `<name>.dead`. @default {"default"} */
  readonly name?: string;
  /**
   * The most messages that the queue holds; `send` beyond it is refused, and no message is evicted. The
   * server stores the limit, so it applies to all processes until one opens the queue with another limit.
   * @default the current limit of the queue
   */
  readonly maxSize?: number;
  /**
   * The longest body in bytes, as JSON in UTF-8. The server's `max_payload` limits it too. @default
   * {262_144}
   */
  readonly maxBodyBytes?: number;
  /**
   * The longest duration of a call, in milliseconds. Opening a queue retries transient errors for this
   * long, such as "JetStream system temporarily unavailable". @default {5_000}
   */
  readonly callTimeoutMs?: number;
  /**
   * How often a waiting receiver repeats its request, in milliseconds. The engine repeats it after at
   * most 250 ms. @default {5_000}
   */
  readonly pollIntervalMs?: number;
  /** On how many servers of a cluster a new queue is stored, from 1 to 5. @default {1} */
  readonly replicas?: number;
}

/** The most replicas that JetStream supports. */
const MAX_REPLICAS = 5;

/**
 * A mailbox on a NATS server with JetStream, version 2.9 or later, or on a cluster. Processes on many
 * machines can share it. Each queue uses one stream for messages and one for notes about them. JetStream
 * differs from a queue in some points, which limits the guarantees:
 *
 * - The server accepts an ack from an expired lease. Each process refuses its own expired receipt
 *   handles, one second before the server delivers the message again. An ack that takes longer to arrive
 *   may settle a message that another receiver holds.
 * - If a stream or its consumer was deleted, the next call creates it again. Acks for messages of the
 *   deleted stream are refused and never affect newer messages.
 * - A delivery that is lost with its connection reappears after 30 seconds and counts as an attempt.
 * - Messages arrive in order while none is released or nacked. Those messages come before new ones, in
 *   the order in which they were released.
 * - A batch is stored message by message. If the server refuses or does not confirm one, the mailbox
 *   removes those before it; other receivers may have received them by then. A send that fails with a
 *   lost connection may have been stored. With your own id you can repeat it.
 * - Dead-lettering takes two steps and stores the dead letter first. After a crash in between, the
 *   message is delivered once more, without a second dead letter.
 * - NATS 2.9 sometimes reports the second delivery of a message as the first one. Then `deliveryCount` is
 *   one too low and the checkpoint is not read.
 * - `peek` reports the delivery count of messages that this process holds, and 0 for all others.
 * - `stats` counts every message that was delivered and not settled as in flight, also a released one and
 *   one that waits for its retry, and a delayed message as waiting until a receive has read its delay.
 *
 * The server decides what a confirmed message survives: always a crash of its process; a power failure
 * only with `sync_interval: always` or with replicas on other machines.
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
   * Opens a queue on the server at a URL, or on a connection that you pass. The URL starts with `nats://`
   * or `tls://`; commas separate several hosts.
   *
   * Several mailboxes can share a connection that you pass, and closing them does not close it. Create it
   * with `maxReconnectAttempts: -1`, because its mailboxes stop working when it gives up.
   */
  static async open<T, R = unknown>(
    server: string | NatsConnection,
    options: NatsMailboxOptions = {},
  ): Promise<NatsMailbox<T, R>> {
    const { name = "default", maxSize } = options;
    const connection = new SharedConnection(checkServer(server), {
      clock: options.clock ?? systemClock,
      random: options.random ?? systemRandom,
      log: safeLog(options.log),
      callTimeoutMs: checkInterval("callTimeoutMs", options.callTimeoutMs ?? 5_000),
      pollIntervalMs: checkInterval("pollIntervalMs", options.pollIntervalMs ?? 5_000),
      replicas: checkCount("replicas", options.replicas ?? 1, 1, MAX_REPLICAS),
    });
    const limit = maxSize === undefined ? undefined : checkCount("maxSize", maxSize);
    const engine = new NatsEngine(name, connection, limit);
    // Checks the remaining options before anything is sent to the server.
    const mailbox = new NatsMailbox<T, R>(name, engine, options);
    await connection.open();
    try {
      await engine.open();
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
      `Invalid URL: expected nats://host:port or tls://host:port, got ${show(redactUrl(url))}`,
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
