import { loadClient } from "../_kit/calls.ts";
import { checkCount, checkInterval, show } from "../../_checks.ts";
import { systemClock } from "../../clock.ts";
import { safeLog } from "../../library_log.ts";
import type { Codec } from "../../mailbox/codec.ts";
import { EngineMailbox } from "../../mailbox/engine_mailbox.ts";
import { InvalidParameterError } from "../../mailbox/errors.ts";
import type { MailboxOptions } from "../../mailbox/mailbox.ts";
import { type Random, systemRandom } from "../../random.ts";
import type { CheckpointStore } from "./checkpoint_store.ts";
import { type GroupOf, LETTER_BYTES, sqsCodec } from "./_message.ts";
import {
  checkName,
  deadLetterName,
  findDeadLetterQueue,
  findQueue,
  GROUP,
  groupOfKey,
  isFifo,
  parseTarget,
  type Target,
} from "./_queue.ts";
import { SqsCalls, type SqsClient, type SqsSdk } from "./sqs_client.ts";
import { SqsEngine } from "./sqs_engine.ts";

/** Not a literal, because type checks must pass without the optional peer dependency. */
const MODULE: string = "@aws-sdk/client-sqs";

/** Options of {@linkcode SqsMailbox.open}. */
export interface SqsMailboxOptions<T = unknown> extends MailboxOptions {
  /**
   * Your own client. Closing the mailbox does not close it. @default a client with the settings of the
   * environment
   */
  readonly client?: SqsClient;
  /** The module `@aws-sdk/client-sqs`, for bundles that cannot load it at run time. */
  readonly sdk?: SqsSdk;
  /**
   * The region of the queue, such as `eu-west-1`. @default the region in the URL or in the environment
   */
  readonly region?: string;
  /** The address of the service. @default the origin of the queue URL, or AWS */
  readonly endpoint?: string;
  /** Creates the queue and its dead-letter queue if they are missing. @default {false} */
  readonly create?: boolean;
  /** The dead-letter queue, in the same account. @default `<queue>-dead` */
  readonly deadLetterQueue?: string;
  /**
   * The group of a message without a `key` in a FIFO queue. Only one receiver at a time gets messages of a
   * group. @default {"lastcall"}, or with `keys` a group of its own
   */
  readonly messageGroupId?: string | ((body: T, id: string) => string);
  /**
   * Allows `key` in a FIFO queue: the messages of a key are a group. Each request then receives one message,
   * because SQS delivers several messages of a group at a time otherwise. @default {false}
   */
  readonly keys?: boolean;
  /** Stores the checkpoints of handlers. Without a store, saving a checkpoint is refused. */
  readonly checkpoints?: CheckpointStore;
  /** The longest body in bytes, as JSON in UTF-8. @default the limit of the queue, less 16 KiB */
  readonly maxBodyBytes?: number;
  /** The longest duration of a call, in milliseconds. @default {10_000} */
  readonly callTimeoutMs?: number;
}

/**
 * A mailbox on an SQS queue. SQS limits the guarantees:
 *
 * - A standard queue has no order, detects no duplicate ids, and may deliver a message twice. A release
 *   counts as an attempt.
 * - A FIFO queue has an order and no delays. With `keys: true` it delivers the messages of a `key` one at a
 *   time, and messages of different keys in any order.
 * - Times are whole seconds, rounded up. For delays of more than 15 minutes, receivers hide the message
 *   until it is due.
 * - `sendMany` uses batches of ten. When some fail, the others stay stored, and the error reports how
 *   many.
 * - The local clock decides whether a lease is active. The mailbox extends a lease that is about to
 *   expire before it deletes the message.
 * - Dead-lettering stores the dead letter and then deletes the message. A crash in between leaves both.
 * - The mailbox waits for messages with long polls and aborts them only when it closes. A message that
 *   SQS delivers to an aborted poll, or to a process that has ended, reappears after ten seconds.
 * - `peek` is refused, because SQS cannot show a message without delivering it. The counts are approximate,
 *   and those in flight include messages that wait for their retry. `purge` works once a minute.
 * - SQS deletes messages that are older than the queue's retention period: four days by default, 14 for
 *   queues that this mailbox creates.
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
    const { clock = systemClock, random = systemRandom, create = false, maxBodyBytes } = options;
    const log = safeLog(options.log);
    const target = parseTarget(queue, options.region, options.endpoint);
    const timeoutMs = checkInterval("callTimeoutMs", options.callTimeoutMs ?? 10_000);
    const groupOf = groupOption(options, random);
    const keyed = checkKeys(options.keys ?? false, target.name);
    const deadName = checkName(options.deadLetterQueue ?? deadLetterName(target.name));
    if (maxBodyBytes !== undefined) checkCount("maxBodyBytes", maxBodyBytes, 1);
    const callerClient = options.client && checkClient(options.client);

    // The commands are needed also with a client of the caller.
    const sdk = options.sdk ??
      await loadClient<SqsSdk>(
        "A mailbox on SQS",
        MODULE,
        () => import(MODULE),
        "pass the module as `sdk`",
      );
    const created = callerClient === undefined ? makeClient(sdk, target) : undefined;
    const destroy = () => created?.destroy();
    const calls = new SqsCalls(callerClient ?? created!, sdk, { clock, random, timeoutMs });
    try {
      const found = await findQueue(calls, target, create);
      const dead = await findDeadLetterQueue(calls, found, deadName, create);
      if (!dead.exists) {
        log.warn(
          "dead-letter queue is missing or not accessible; messages cannot be dead-lettered",
          { mailbox: target.name, deadLetterQueue: deadName },
        );
      }
      const { checkpoints } = options;
      const deadLetters = dead.queue;
      const engine = new SqsEngine({
        ...{ calls, log, queue: { ...found, keyed }, deadLetters, groupOf, checkpoints, destroy },
      });
      const longest = found.maxMessageBytes - LETTER_BYTES;
      const bytes = Math.min(maxBodyBytes ?? longest, found.maxMessageBytes);
      const codec = sqsCodec(Math.max(bytes, 1), found.maxMessageBytes);
      return new SqsMailbox<T, R>(target.name, engine, codec, options);
    } catch (error) {
      destroy();
      throw error;
    }
  }
}

function groupOption<T>(options: SqsMailboxOptions<T>, random: Random): GroupOf {
  const { codec, keys = false, messageGroupId: group } = options;
  if (typeof group === "string") checkGroup(group);
  const decode = (body: string) => codec === undefined ? JSON.parse(body) : codec.decode(body);
  return async ({ key, body, id }) => {
    if (key !== undefined) return await groupOfKey(key);
    if (typeof group === "function") return checkGroup(group(await decode(body), id));
    return group ?? (keys ? random.id() : "lastcall");
  };
}

function checkGroup(group: string): string {
  if (typeof group === "string" && GROUP.test(group)) return group;
  throw new InvalidParameterError(
    `Invalid messageGroupId: expected 1 to 128 letters, digits and signs, got ${show(group)}`,
  );
}

function checkKeys(keys: boolean, queue: string): boolean {
  if (keys === false || keys === true && isFifo(queue)) return keys;
  throw new InvalidParameterError(
    `Invalid keys: expected true for a FIFO queue, or false, got ${
      show(keys)
    } for "${queue}". The name ` +
      "of a FIFO queue ends in .fifo",
  );
}

function checkClient(client: SqsClient): SqsClient {
  if (typeof client?.send === "function") return client;
  throw new InvalidParameterError(
    `Invalid client: expected one like SQSClient of @aws-sdk/client-sqs, got ${show(client)}`,
  );
}

/** Creates a client. The SDK takes missing settings from the environment. */
function makeClient(
  { SQSClient }: SqsSdk,
  { region, endpoint }: Target,
): InstanceType<SqsSdk["SQSClient"]> {
  return new SQSClient({
    ...(region === undefined ? {} : { region }),
    ...(endpoint === undefined ? {} : { endpoint }),
  });
}
