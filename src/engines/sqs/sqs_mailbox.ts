import { checkCount, checkInterval, show } from "../../_checks.ts";
import { systemClock } from "../../clock.ts";
import { safeLog } from "../../library_log.ts";
import type { Codec } from "../../mailbox/codec.ts";
import { EngineMailbox } from "../../mailbox/engine_mailbox.ts";
import { InvalidParameterError } from "../../mailbox/errors.ts";
import type { MailboxOptions } from "../../mailbox/mailbox.ts";
import { Calls } from "./_calls.ts";
import type { CheckpointStore } from "./checkpoint_store.ts";
import { findBeside, findQueue } from "./_queue.ts";
import { loadSdk, makeClient } from "./_sdk.ts";
import type { GroupOf } from "./_sender.ts";
import type { SqsClient, SqsSdk } from "./sqs_client.ts";
import { SqsEngine } from "./sqs_engine.ts";
import { checkName, deadLetterName, targetOf } from "./_target.ts";
import { sqsCodec } from "./_text.ts";

/** Kept free in each message for its id, its reply address, and what a letter says of its death. */
const RESERVED_BYTES = 16_384;

/** Options of {@linkcode SqsMailbox.open}. */
export interface SqsMailboxOptions<T = unknown> extends MailboxOptions {
  /** A client of yours, which is not closed with the mailbox. @default one from the environment */
  readonly client?: SqsClient;
  /** The module `@aws-sdk/client-sqs`, for bundles, where it cannot be loaded. */
  readonly sdk?: SqsSdk;
  /** Where the queue is, as `eu-west-1`. @default that of the URL, or of the environment */
  readonly region?: string;
  /** Where the service is. @default that of the URL, or that of AWS */
  readonly endpoint?: string;
  /** Makes the queue and that of its dead letters where they are not there. @default {false} */
  readonly create?: boolean;
  /** The queue of the dead letters, in the same account. @default `<queue>-dead` */
  readonly deadLetterQueue?: string;
  /**
   * The group of a message in a FIFO queue: only one receiver at a time has messages of a group.
   * @default {"lastcall"}
   */
  readonly messageGroupId?: string | ((body: T, id: string) => string);
  /** Where handlers' checkpoints are kept. Without it, saving one is refused. */
  readonly checkpoints?: CheckpointStore;
  /** The longest body, as JSON in UTF-8. @default what the queue takes, less 16 KiB */
  readonly maxBodyBytes?: number;
  /** No call takes longer than this. @default {10_000} */
  readonly callTimeoutMs?: number;
}

/**
 * A mailbox on a queue of SQS. What SQS cannot do is not promised:
 *
 * - A standard queue has no order, knows no ids, and may deliver twice. A release counts as a delivery.
 * - Times are whole seconds, rounded up. Delays of more than 15 minutes are made by whoever receives.
 * - `sendMany` travels in batches of ten. When some fail, the others stay, and the error tells how many.
 * - Whether a lease still lasts is known by the local clock. A delete near its end asks SQS first.
 * - To bury is to store the letter and then to delete the message: a crash in between leaves both.
 * - Messages are waited for by long polls, which are not given up before a close. What SQS hands to one
 *   that was given up, or whose process has ended, comes back after ten seconds.
 * - Nothing can be looked at without taking it: `peek` is refused. The count is approximate, and `purge`
 *   works once a minute.
 * - SQS deletes what is older than the queue's retention, four days unless told: 14 where this made it.
 *
 * @example
 * ```ts ignore
 * import { SqsMailbox } from "@lastcall/lastcall/engines/sqs";
 *
 * const orders = await SqsMailbox.open<{ item: string }>("orders", { create: true });
 * await orders.send({ item: "tea" });
 * const [message] = await orders.receive({ waitTimeMs: 20_000 });
 * console.log(message?.body.item);
 * await message?.acknowledge();
 * await orders.close();
 * ```
 */
export class SqsMailbox<T, R = unknown> extends EngineMailbox<T, R, string> {
  private constructor(
    name: string,
    engine: SqsEngine,
    codec: Codec<string>,
    options: MailboxOptions,
  ) {
    super(name, engine, codec, options);
  }

  /** Opens a queue by its URL, or by its name in the account and region of the environment. */
  static async open<T, R = unknown>(
    queue: string,
    options: SqsMailboxOptions<T> = {},
  ): Promise<SqsMailbox<T, R>> {
    const { clock = systemClock, create = false, maxBodyBytes } = options;
    const log = safeLog(options.log);
    const target = targetOf(queue, options.region, options.endpoint);
    const callTimeoutMs = checkInterval("callTimeoutMs", options.callTimeoutMs ?? 10_000);
    const groupOf = groupOption(options.messageGroupId ?? "lastcall");
    const deadName = checkName(options.deadLetterQueue ?? deadLetterName(target.name));
    if (maxBodyBytes !== undefined) checkCount("maxBodyBytes", maxBodyBytes, 1);
    const given = options.client && checkClient(options.client);

    const sdk = options.sdk ?? await loadSdk();
    const own = given === undefined ? makeClient(sdk, target) : undefined;
    const destroy = () => own?.destroy();
    const calls = new Calls(given ?? own!, sdk, clock, callTimeoutMs);
    try {
      const found = await findQueue(calls, target, create);
      const dead = await findBeside(calls, found, deadName, create);
      if (!dead.there) {
        log.warn(
          `no queue "${deadName}" can be reached: messages that fail for good cannot be buried`,
        );
      }
      const { checkpoints } = options;
      const deadLetters = dead.queue;
      const engine = new SqsEngine({
        ...{ calls, log, queue: found, deadLetters, groupOf, checkpoints, destroy },
      });
      const longest = found.maxMessageBytes - RESERVED_BYTES;
      const bytes = Math.min(maxBodyBytes ?? longest, found.maxMessageBytes);
      const codec = sqsCodec(Math.max(bytes, 1), found.maxMessageBytes);
      return new SqsMailbox<T, R>(target.name, engine, codec, options);
    } catch (error) {
      destroy();
      throw error;
    }
  }
}

function groupOption<T>(group: string | ((body: T, id: string) => string)): GroupOf {
  if (typeof group === "function") return (body, id) => checkGroup(group(JSON.parse(body), id));
  checkGroup(group);
  return () => group;
}

function checkGroup(group: string): string {
  if (typeof group === "string" && /^[!-~]{1,128}$/.test(group)) return group;
  throw new InvalidParameterError(
    `Invalid messageGroupId: expected 1 to 128 letters, digits and signs, got ${show(group)}`,
  );
}

function checkClient(client: SqsClient): SqsClient {
  if (typeof client?.send === "function") return client;
  throw new InvalidParameterError(
    `Invalid client: expected one like SQSClient of @aws-sdk/client-sqs, got ${show(client)}`,
  );
}
