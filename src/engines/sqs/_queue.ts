// Which queue a mailbox uses: how its name or URL is read, and how it is found or created.

import { parseUrl, show } from "../../_checks.ts";
import { redactUrl } from "../_kit/mailbox_url.ts";
import { InvalidParameterError } from "../../mailbox/errors.ts";
import { type Capabilities, FULL_CAPABILITIES } from "../../mailbox/mailbox.ts";
import { isForbidden, isNoQueue, type SqsCalls } from "./sqs_client.ts";

/** A queue and where to find it. */
export interface Target {
  readonly name: string;
  /** Undefined when the caller passed a name. */
  readonly url?: string;
  readonly region?: string;
  readonly endpoint?: string;
}

/** Parses a queue's URL or name. */
export function parseTarget(queue: string, region?: string, endpoint?: string): Target {
  const location = {
    ...(region === undefined ? {} : { region }),
    ...(endpoint === undefined ? {} : { endpoint: checkHttpUrl("endpoint", endpoint).origin }),
  };
  if (!/^https?:/.test(queue)) return { name: checkName(queue), ...location };
  const { origin, pathname, hostname } = checkHttpUrl("queue URL", queue);
  const name = checkName(pathname.split("/").at(-1)!);
  const found = /(^|\.)amazonaws\.com(\.cn)?$/.test(hostname)
    ? regionOf(hostname)
    : { endpoint: origin };
  return { name, url: queue, ...found, ...location };
}

/** Returns the default name of the dead-letter queue. */
export function deadLetterName(name: string): string {
  return name.replace(/(\.fifo)?$/, "-dead$1");
}

/** A queue on the service. */
export interface Queue {
  readonly name: string;
  readonly url: string;
  readonly fifo: boolean;
  /** True when the groups of a FIFO queue are the keys of its messages. */
  readonly keyed: boolean;
  /** The largest message in bytes, including its attributes. */
  readonly maxMessageBytes: number;
}

/** Returns what a queue can do. A dead letter is a group of its own. */
export function capabilitiesOf(
  { fifo, keyed }: Queue,
  isDeadLetters: boolean,
): Capabilities {
  return {
    ...FULL_CAPABILITIES,
    restoresAttempts: false, // SQS counts deliveries itself
    leaseExpiries: false, // SQS only counts deliveries
    fifo: fifo && !keyed && !isDeadLetters, // SQS keeps the order inside a group
    delay: !fifo, // a FIFO queue has one delay for all messages
    dedup: false, // SQS finds no message by its id
    exactCount: false, // the attributes of a queue are approximate
    exactStats: false, // the same
    keys: keyed && !isDeadLetters, // a group is the line of a key
    priorities: false, // a queue has one order
    longDelays: false, // SQS hides a message for at most 12 hours and stores it for at most 14 days
    dedupWindow: false, // always five minutes, and SQS does not tell that it dropped a duplicate
    lookup: false, // SQS finds no message by its id
    pause: false, // a queue has nothing to store it in
    rateLimit: false, // the same
    requests: false, // a new queue can take a minute, and an abandoned one stays for good
    transactions: false,
    ownerDetection: false, // workers hold no connection to a queue
  };
}

/** Returns true for the name of a FIFO queue. */
export function isFifo(name: string): boolean {
  return name.endsWith(".fifo");
}

/** Returns the message group of a key. Two keys that share one would only wait for each other. */
export async function groupOfKey(key: string): Promise<string> {
  if (GROUP.test(key)) return key;
  const readable = encodeURIComponent(key);
  if (GROUP.test(readable)) return readable;
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(key));
  return Array.from(new Uint8Array(digest), (it) => it.toString(16).padStart(2, "0")).join("");
}

/** What SQS accepts as a message group. */
export const GROUP: RegExp = /^[!-~]{1,128}$/;

/** The longest retention that SQS supports. */
const RETENTION_S = 1_209_600;

/** SQS may report a new queue as missing for a moment. */
const NEW_QUEUE_ATTEMPTS = 8;
const NEW_QUEUE_PAUSE_MS = 500;

/** The attributes of a queue. */
export type Attributes = Readonly<Record<string, string | undefined>>;

/** Finds a queue, or creates it if `create` is set. */
export async function findQueue(calls: SqsCalls, target: Target, create: boolean): Promise<Queue> {
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
  calls: SqsCalls,
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
  calls: SqsCalls,
  what: string,
  url: string,
  names: readonly string[],
): Promise<Attributes> {
  const input = { QueueUrl: url, AttributeNames: names };
  const answer = await calls.run<{ Attributes?: Attributes }>(what, "GetQueueAttributes", input);
  return answer.Attributes ?? {};
}

async function describe(calls: SqsCalls, name: string, url: string): Promise<Queue> {
  const names = ["MaximumMessageSize"];
  const { MaximumMessageSize } = await attributesOf(calls, `open "${name}"`, url, names);
  return {
    name,
    url,
    fifo: isFifo(name),
    keyed: false,
    maxMessageBytes: Number(MaximumMessageSize ?? 262_144),
  };
}

async function urlOf(calls: SqsCalls, name: string): Promise<string> {
  const input = { QueueName: name };
  return (await calls.run<{ QueueUrl: string }>(`find "${name}"`, "GetQueueUrl", input)).QueueUrl;
}

async function createQueue(calls: SqsCalls, name: string): Promise<string> {
  const Attributes = {
    MessageRetentionPeriod: `${RETENTION_S}`,
    ...(isFifo(name) ? { FifoQueue: "true" } : {}),
  };
  const input = { QueueName: name, Attributes };
  return (await calls.run<{ QueueUrl: string }>(`create "${name}"`, "CreateQueue", input)).QueueUrl;
}

/** Returns the URL of another queue in the same account. */
function siblingUrl(url: string, name: string): string {
  return url.replace(/[^/]*$/, name);
}

/** Refuses an invalid queue name. */
export function checkName(name: string): string {
  if (typeof name === "string" && /^[\w-]{1,80}$/.test(name.replace(/\.fifo$/, ""))) {
    if (name.length <= 80) return name;
  }
  throw new InvalidParameterError(
    `Invalid queue: expected a URL, or a name of 1 to 80 letters, digits, - and _ that may end in ` +
      `.fifo, got ${show(typeof name === "string" ? redactUrl(name) : name)}`,
  );
}

function checkHttpUrl(what: string, text: string): URL {
  const url = parseUrl(text);
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw new InvalidParameterError(
      `Invalid ${what}: expected a URL that starts with https:// or http://, got ${
        show(text.replace(/^.*@/s, "…@"))
      }`,
    );
  }
  if (url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "") {
    throw new InvalidParameterError(
      `Invalid ${what}: expected a URL without credentials and parameters, for ${
        show(redactUrl(text))
      }; ` +
        "put credentials into the environment, or pass a client",
    );
  }
  return url;
}

/** Parses `sqs.eu-west-1.amazonaws.com` and the old form `eu-west-1.queue.amazonaws.com`. */
function regionOf(hostname: string): { readonly region?: string } {
  const region = /^sqs(?:-fips)?\.([\w-]+)\.amazonaws/.exec(hostname)?.[1] ??
    /^([\w-]+)\.queue\.amazonaws/.exec(hostname)?.[1];
  return region === undefined ? {} : { region };
}
