import { checkCount, checkInterval, show } from "../../_checks.ts";
import { systemClock } from "../../clock.ts";
import { safeLog } from "../../library_log.ts";
import { jsonCodec } from "../../mailbox/codec.ts";
import { EngineMailbox } from "../../mailbox/engine_mailbox.ts";
import { InvalidParameterError } from "../../mailbox/errors.ts";
import type { MailboxOptions } from "../../mailbox/mailbox.ts";
import { DenoKvEngine } from "./deno_kv_engine.ts";
import type { Kv } from "./kv.ts";
import { openKv } from "./_open_kv.ts";
import { Store } from "./_store.ts";

/** What Deno KV takes at one key, less 8 KiB for the head of a message and what a letter adds. */
const MAX_BODY_BYTES = 57_344;

/** Options of {@linkcode DenoKvMailbox.open}. */
export interface DenoKvMailboxOptions extends MailboxOptions {
  /** The queue in the store; its dead letters are in `<name>.dead`. @default {"default"} */
  readonly name?: string;
  /** Above this `send` is refused; nothing is ever evicted. @default {Infinity} */
  readonly maxSize?: number;
  /** The longest body, as JSON in UTF-8; no more than the default. @default {57_344} */
  readonly maxBodyBytes?: number;
  /** No call takes longer than this. @default {5_000} */
  readonly callTimeoutMs?: number;
  /**
   * How often a waiting receiver looks although nothing was heard of a message. Processes that share a
   * file hear of one another in no other way. @default {1_000} for a file, {5_000} for all else
   */
  readonly pollIntervalMs?: number;
}

/**
 * A mailbox in Deno KV, in a file or where Deno Deploy has it, with the whole contract. It needs Deno with
 * `--unstable-kv`. There is no time of the store: leases and delays are by the clock on the wall, so
 * machines that share a store have to agree on the time, or leases end early or late by the difference.
 * A body has 56 KiB at the most, and all bodies of one `sendMany` 700 KB.
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
   * Opens a queue of the store at a path or a URL, of the one that Deno has for this program, or of one
   * that is open: that is shared, and not closed with the mailbox.
   */
  static async open<T, R = unknown>(
    place?: string | Kv,
    options: DenoKvMailboxOptions = {},
  ): Promise<DenoKvMailbox<T, R>> {
    const { name = "default", clock = systemClock } = options;
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
    const store = new Store(kv, own !== undefined, clock, callTimeoutMs);
    try {
      const engine = new DenoKvEngine(name, { store, log, maxSize, pollIntervalMs });
      const mailbox = new DenoKvMailbox<T, R>(name, engine, maxBodyBytes, options);
      await engine.count(); // it is not before the first call that a store tells what is wrong
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
    `Invalid store: expected a path, a URL, or what Deno.openKv gives, got ${show(place)}`,
  );
}
