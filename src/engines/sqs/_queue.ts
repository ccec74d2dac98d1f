import type { Calls } from "./_calls.ts";
import { isForbidden, isNoQueue } from "./_errors.ts";
import { checkName, siblingUrl, type Target } from "./_target.ts";

/** A queue on the service. */
export interface Queue {
  readonly name: string;
  readonly url: string;
  readonly fifo: boolean;
  /** The largest message in bytes, including its attributes. */
  readonly maxMessageBytes: number;
}

/** The longest retention that SQS supports. */
const RETENTION_S = 1_209_600;

/** SQS may report a new queue as missing for a moment. */
const NEW_QUEUE_ATTEMPTS = 8;
const NEW_QUEUE_PAUSE_MS = 500;

/** The attributes of a queue. */
export type Attributes = Readonly<Record<string, string | undefined>>;

/** Finds a queue, or creates it if `create` is set. */
export async function findQueue(calls: Calls, target: Target, create: boolean): Promise<Queue> {
  const { name } = target;
  try {
    return await describe(calls, name, target.url ?? await urlOf(calls, name));
  } catch (error) {
    if (!create || !isNoQueue(error)) throw error;
  }
  const created = await createQueue(calls, name);
  const url = target.url ?? created;
  for (let attempt = 1;; attempt++) {
    try {
      return await describe(calls, name, url);
    } catch (error) {
      if (attempt === NEW_QUEUE_ATTEMPTS || !isNoQueue(error)) throw error;
      await calls.clock.sleep(NEW_QUEUE_PAUSE_MS);
    }
  }
}

/** Finds or creates the dead-letter queue in the same account. It may be missing. */
export async function findDeadLetterQueue(
  calls: Calls,
  queue: Queue,
  name: string,
  create: boolean,
): Promise<{ readonly queue: Queue; readonly exists: boolean }> {
  const url = siblingUrl(queue.url, checkName(name));
  try {
    return { queue: await findQueue(calls, { name, url }, create), exists: true };
  } catch (error) {
    if (!isNoQueue(error) && !isForbidden(error)) throw error;
    return { queue: { ...queue, name, url }, exists: false };
  }
}

/** Reads attributes of a queue. */
export async function attributesOf(
  calls: Calls,
  what: string,
  url: string,
  names: readonly string[],
): Promise<Attributes> {
  const input = { QueueUrl: url, AttributeNames: names };
  const answer = await calls.run<{ Attributes?: Attributes }>(what, "GetQueueAttributes", input);
  return answer.Attributes ?? {};
}

async function describe(calls: Calls, name: string, url: string): Promise<Queue> {
  const names = ["MaximumMessageSize"];
  const { MaximumMessageSize } = await attributesOf(calls, `open "${name}"`, url, names);
  return {
    name,
    url,
    fifo: name.endsWith(".fifo"),
    maxMessageBytes: Number(MaximumMessageSize ?? 262_144),
  };
}

async function urlOf(calls: Calls, name: string): Promise<string> {
  const input = { QueueName: name };
  return (await calls.run<{ QueueUrl: string }>(`find "${name}"`, "GetQueueUrl", input)).QueueUrl;
}

async function createQueue(calls: Calls, name: string): Promise<string> {
  const Attributes = {
    MessageRetentionPeriod: `${RETENTION_S}`,
    ...(name.endsWith(".fifo") ? { FifoQueue: "true" } : {}),
  };
  const input = { QueueName: name, Attributes };
  return (await calls.run<{ QueueUrl: string }>(`create "${name}"`, "CreateQueue", input)).QueueUrl;
}
