import { checkCount, checkInterval, show } from "../../_checks.ts";
import { systemClock } from "../../clock.ts";
import { safeLog } from "../../library_log.ts";
import { jsonCodec } from "../../mailbox/codec.ts";
import { EngineMailbox } from "../../mailbox/engine_mailbox.ts";
import { InvalidParameterError } from "../../mailbox/errors.ts";
import type { MailboxOptions } from "../../mailbox/mailbox.ts";
import { systemRandom } from "../../random.ts";
import { DenoKvEngine } from "./deno_kv_engine.ts";
import type { Kv } from "./kv.ts";
import { openKv } from "./_open_kv.ts";
import { Store } from "./_store.ts";

/** The maximum size of a value in Deno KV, less 8 KiB for the other fields of a message. */
const MAX_BODY_BYTES = 57_344;

/** Options of {@linkcode DenoKvMailbox.open}. */
export interface DenoKvMailboxOptions extends MailboxOptions {
  /** The name of the queue. Its dead letters are in `<name>.dead`. @default {"default"} */
  readonly name?: string;
  /** How many messages the queue holds. `send` throws a `MailboxFullError` above. @default {Infinity} */
  readonly maxSize?: number;
  /** The maximum size of a body, in bytes of its JSON in UTF-8; at most the default. @default {57_344} */
  readonly maxBodyBytes?: number;
  /** After how many milliseconds a call fails. @default {5_000} */
  readonly callTimeoutMs?: number;
  /**
   * How often a waiting receiver polls without a notification, in milliseconds. Processes that share a
   * file get no notifications of one another. @default {1_000} for a file, {5_000} otherwise
   */
  readonly pollIntervalMs?: number;
}

/**
 * Stores messages in Deno KV, in a file or on Deno Deploy. It implements the mailbox contract, except `get`,
 * `cancel` and transactions, and needs Deno with `--unstable-kv`.
 *
 * Deno KV has no clock: leases and delays use the wall clock of the machine. If the clocks of machines that
 * share a store differ, leases end early or late by the difference. A body has at most 56 KiB, and all
 * bodies of one `sendMany` at most 700 KB. The messages of one `sendMany` have at most 99 different ids and
 * keys, and an id or a key has at most 512 bytes. Processes that share a file learn by polling that a
 * message was sent, a key is free or a pause has ended. A process that was killed is noticed after 11 to 18
 * seconds, and so is one that is frozen or blocked for that long.
 *
 * @example
 * ```ts ignore
 * import { DenoKvMailbox } from "@lastcall/lastcall/engines/deno_kv";
 *
 * const orders = await DenoKvMailbox.open<{ item: string }>("./jobs.kv", { name: "orders" });
 * await orders.send({ item: "tea" });
 * const [message] = await orders.receive({ waitTimeMs: 20_000 });
 * console.log(message?.body.item);
 * await message?.acknowledge();
 * await orders.close();
 * ```
 */
export class DenoKvMailbox<T, R = unknown> extends EngineMailbox<T, R, string> {
  private constructor(name: string, engine: DenoKvEngine, bytes: number, options: MailboxOptions) {
    super(name, engine, jsonCodec(bytes, MAX_BODY_BYTES), options);
  }

  /**
   * Opens a queue. `place` is the path or the URL of a store, or an open store, which the mailbox does not
   * close. Without it, the mailbox uses the default store of this program.
   *
   * @throws {InvalidParameterError} when `place` or the name is invalid.
   * @throws {RangeError} when a numeric option is out of range.
   * @throws {MailboxConnectionError} when Deno KV is not available, or the store cannot be opened.
   */
  static async open<T, R = unknown>(
    place?: string | Kv,
    options: DenoKvMailboxOptions = {},
  ): Promise<DenoKvMailbox<T, R>> {
    const { name = "default", clock = systemClock, random = systemRandom } = options;
    const log = safeLog(options.log);
    checkPlace(place);
    const isFile = typeof place === "string" && !/^https?:/.test(place);
    const pollIntervalMs = options.pollIntervalMs ?? (isFile ? 1_000 : 5_000);
    checkInterval("pollIntervalMs", pollIntervalMs);
    const callTimeoutMs = checkInterval("callTimeoutMs", options.callTimeoutMs ?? 5_000);
    const maxSize = checkCount("maxSize", options.maxSize ?? Infinity);
    const maxBodyBytes = checkCount(
      "maxBodyBytes",
      options.maxBodyBytes ?? MAX_BODY_BYTES,
      1,
      MAX_BODY_BYTES,
    );

    const own = typeof place === "object" ? undefined : await openKv(place);
    const kv = own ?? place as Kv;
    const ownsKv = own !== undefined;
    const store = new Store(kv, { clock, random, log, callTimeoutMs, ownsKv });
    try {
      const engine = new DenoKvEngine(name, { store, maxSize, pollIntervalMs, log });
      const mailbox = new DenoKvMailbox<T, R>(name, engine, maxBodyBytes, options);
      await engine.count(); // a store reports its problems with the first call only
      return mailbox;
    } catch (error) {
      await store.close();
      throw error;
    }
  }
}

function checkPlace(place: string | Kv | undefined): void {
  if (place === undefined || (typeof place === "string" && place !== "")) return;
  const parts = ["atomic", "get", "getMany", "list", "watch"] as const;
  if (typeof place === "object" && parts.every((it) => typeof place?.[it] === "function")) return;
  throw new InvalidParameterError(
    `Invalid store: expected a path, a URL, or the result of Deno.openKv, got ${show(place)}`,
  );
}
