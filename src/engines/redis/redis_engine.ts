import type {
  Delivery,
  Engine,
  EngineStats,
  Entry,
  Maybe,
  OffThreadPlan,
  RateLimit,
  Received,
} from "../../mailbox/engine.ts";
import { fullError, InvalidParameterError } from "../../mailbox/errors.ts";
import { type Capabilities, FULL_CAPABILITIES } from "../../mailbox/mailbox.ts";
import { microseconds, peekedMessages, type RedisDelivery, sendArguments } from "./_delivery.ts";
import { Lookup, queueNames, statsOf } from "./_lookup.ts";
import { Owner } from "./_owner.ts";
import { Receiver } from "./_receiver.ts";
import { isOutOfMemory } from "./redis_client.ts";
import type { RedisLink, RunScript, Values } from "./redis_link.ts";
import { COUNT, DROP, PEEK, PURGE, STATS } from "./scripts/control.ts";
import { LIMIT, PAUSE } from "./scripts/limits.ts";
import {
  cancelChannelOf,
  cancelKeyOf,
  channelOf,
  keysOf,
  type QueueScript,
} from "./scripts/script.ts";
import { SEND } from "./scripts/send.ts";
import { Settler } from "./_settler.ts";
import { MemoryWatch, StorageWatch } from "./_storage_watch.ts";
import { Waiting, type WakeListener } from "./_waiting.ts";

/** A larger script call would block the other clients of the server. */
const MAX_SEND = 10_000;

/** The names that a mailbox generates for the queues of replies to its requests. */
const REPLY_QUEUE = /\.replies\.[0-9a-f-]{13}$/;
/** When the server deletes a queue of replies that is not used. */
const REPLIES_EXPIRY_SECONDS = 86_400;

const NO_CANCELS =
  "cannot listen for cancelled messages on a Redis channel; until it works again, the handlers of such " +
  "messages run to their end. Check that the user may SUBSCRIBE to it";

const CAPABILITIES: Capabilities = { ...FULL_CAPABILITIES, transactions: false };
const WITHOUT_OWNERS: Capabilities = { ...CAPABILITIES, ownerDetection: false };

/** Options of {@linkcode RedisEngine}. */
export interface RedisEngineOptions {
  /** How many messages the queue holds. */
  readonly maxSize: number;
  /** How often a waiting receiver polls without a notification, in milliseconds. */
  readonly pollIntervalMs: number;
  /** Shared by a mailbox and its dead letters. */
  readonly memory?: MemoryWatch;
  /**
   * In how many seconds the server deletes the queue when it is not used. For the replies to a process: when
   * it crashes, nothing must be left. @default {never}
   */
  readonly expirySeconds?: number;
  /** Whether workers that die are detected. Only for an engine that is closed. @default {false} */
  readonly detectsOwners?: boolean;
}

/** One queue on a server. All times are by the server's clock, which its clients share. */
export class RedisEngine implements Engine<string> {
  readonly label = "Redis";
  readonly #name: string;
  readonly #link: RedisLink;
  readonly #options: RedisEngineOptions;
  readonly #keys: readonly string[];
  /** The keys that each script uses. */
  readonly #scriptKeys = new Map<QueueScript, readonly string[]>();
  readonly #memory: MemoryWatch;
  readonly #storage: StorageWatch;
  readonly #settler: Settler;
  readonly #owner: Owner | undefined;
  readonly #waiting: Waiting;
  readonly #receiver: Receiver;
  readonly #lookup: Lookup;

  constructor(name: string, link: RedisLink, options: RedisEngineOptions) {
    this.#name = name;
    this.#link = link;
    this.#options = options;
    this.#keys = keysOf(name);
    this.#memory = options.memory ?? new MemoryWatch(link.options.log);
    const { expirySeconds = 0, pollIntervalMs } = options;
    this.#storage = new StorageWatch(name, link, this.#keys, expirySeconds > 0);
    const onNotice = (text: string) => this.#waiting.onNotice(text);
    const owner = options.detectsOwners
      ? new Owner({ queue: name, link, run: this.#run, onNotice })
      : undefined;
    this.#owner = owner;
    const common = { run: this.#run, link, memory: this.#memory, expirySeconds, owner };
    const settler = new Settler({ ...common, deadKeys: keysOf(this.#deadName) });
    this.#settler = settler;
    const waiting = new Waiting({ ...common, settler, channel: channelOf(name), pollIntervalMs });
    this.#waiting = waiting;
    this.#receiver = new Receiver({ ...common, settler, waiting, storage: this.#storage });
    this.#lookup = new Lookup({
      run: this.#run,
      callId: () => link.options.random.id(),
      cancelKey: (callId) => cancelKeyOf(name, callId),
    });
  }

  /** Workers that die are detected from the first receive on, and where the server allows it. */
  get capabilities(): Capabilities {
    return this.#owner?.isDetected ? CAPABILITIES : WITHOUT_OWNERS;
  }

  /** Describes that the server has no memory left and refuses sends; undefined while it accepts them. */
  get trouble(): string | undefined {
    return this.#memory.trouble;
  }

  /** Throws when another program wrote the keys. Its reply also sets the server's clock. */
  checkFormat(): Promise<void> {
    return this.#storage.checkFormat(this.#action("open"));
  }

  async send(entries: readonly Entry<string>[]): Promise<boolean[]> {
    if (entries.length > MAX_SEND) {
      throw new InvalidParameterError(
        `Cannot send ${entries.length} messages to "${this.#name}" in one call: at most ${MAX_SEND} ` +
          "are allowed. Send them in several calls",
      );
    }
    const { maxSize, expirySeconds = 0 } = this.#options;
    const room = Math.min(maxSize, Number.MAX_SAFE_INTEGER);
    const reply = await this.#send([room, expirySeconds, ...sendArguments(entries)]);
    const [, stored, count, fresh, duplicates = []] = reply as [
      number,
      number,
      number,
      number,
      number[]?,
    ];
    if (stored !== 1) throw fullError(this.#name, count, maxSize, fresh);
    return entries.map((_, i) => !duplicates.includes(i));
  }

  async #send(values: Values): Promise<unknown[]> {
    try {
      const reply = await this.#run("send", SEND, values);
      this.#memory.update(false);
      const [nowUs, , , , , last] = reply as number[];
      const reporting = this.#storage.note(nowUs!, { bodiless: 0, orphaned: 0, last });
      if (reporting !== undefined) await reporting;
      return reply;
    } catch (error) {
      if (isOutOfMemory(error)) this.#memory.update(true);
      throw error;
    }
  }

  receive(max: number, visibilityMs: number, waits: boolean = false): Promise<Received<string>> {
    const receive = () => this.#receiver.receive(max, visibilityMs, waits);
    return this.#owner?.start()?.then(receive) ?? receive();
  }

  acknowledge(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    return this.#receiver.acknowledge(deliveries as readonly RedisDelivery[]);
  }

  extend(deliveries: readonly Delivery<string>[], visibilityMs: number): Promise<boolean[]> {
    return this.#settler.extend(deliveries, visibilityMs);
  }

  nack(
    deliveries: readonly Delivery<string>[],
    delayMs: number,
    countsAttempt: boolean,
  ): Promise<boolean[]> {
    return this.#settler.nack(deliveries, delayMs, countsAttempt);
  }

  release(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    return this.#settler.release(deliveries);
  }

  deadLetter(delivery: Delivery<string>, letter: Entry<string>): Promise<boolean> {
    return this.#settler.deadLetter(delivery, letter);
  }

  checkpoint(delivery: Delivery<string>, checkpoint: string): Promise<boolean> {
    return this.#settler.checkpoint(delivery, checkpoint);
  }

  async peek(max: number, skip = 0): Promise<RedisDelivery[]> {
    return peekedMessages(await this.#run("peek", PEEK, [max, skip]));
  }

  async count(): Promise<number> {
    const [, count] = await this.#run("count", COUNT, []);
    return count as number;
  }

  async stats(): Promise<EngineStats> {
    return statsOf(await this.#run("count", STATS, []));
  }

  async purge(): Promise<number> {
    const [, count] = await this.#run("purge", PURGE, []);
    return count as number;
  }

  find(id: string): Promise<RedisDelivery | undefined> {
    return this.#lookup.find(id);
  }

  cancel(id: string): Promise<boolean> {
    return this.#lookup.cancel(id);
  }

  deliverNow(id: string): Promise<boolean> {
    return this.#lookup.deliverNow(id);
  }

  /** Cancels are missed while the connection is down. The handler then learns of it when it settles. */
  onCancel(listener: (id: string) => void): () => void {
    if (this.#link.closed) return () => {};
    const onNotification = (id: string | undefined) => {
      if (id !== undefined) listener(id);
    };
    return this.#link.channels.listen(cancelChannelOf(this.#name), onNotification, NO_CANCELS);
  }

  async pause(forMs: number): Promise<void> {
    const durationUs = forMs === Infinity ? -1 : microseconds(forMs);
    await this.#run(forMs > 0 ? "pause" : "resume", PAUSE, [durationUs]);
  }

  async rateLimit(limit: RateLimit | undefined): Promise<void> {
    await this.#run("limit", LIMIT, limit === undefined ? [] : [limit.max, limit.perMs]);
  }

  queues(): Promise<string[]> {
    return queueNames(this.#link);
  }

  /** Only the reply queues of requests expire. */
  queue(name: string): RedisEngine {
    return this.#sibling(name, REPLY_QUEUE.test(name) ? REPLIES_EXPIRY_SECONDS : 0);
  }

  /** Deletes the dead letters too. */
  async drop(): Promise<void> {
    const keys = [...this.#keys, ...keysOf(this.#deadName)];
    await this.#link.run(this.#action("drop"), DROP, keys, []);
  }

  onWake(listener: WakeListener): () => Maybe<void> {
    return this.#link.closed ? () => {} : this.#waiting.listen(listener);
  }

  deadLetters(): RedisEngine {
    return this.#sibling(this.#deadName, this.#options.expirySeconds);
  }

  /** Another thread needs the URL: it cannot share the client of the caller. */
  offThread(): OffThreadPlan | undefined {
    const { url, options: { callTimeoutMs } } = this.#link;
    if (url === undefined) return undefined;
    return { engine: this.label, options: { url, queue: this.#name, callTimeoutMs } };
  }

  async close(): Promise<void> {
    this.#waiting.close();
    await this.#owner?.close();
    await this.#link.settled();
    await this.#receiver.close();
    await this.#link.close();
  }

  #sibling(name: string, expirySeconds = 0): RedisEngine {
    const plain = { ...this.#options, maxSize: Infinity, detectsOwners: false };
    return new RedisEngine(name, this.#link, { ...plain, memory: this.#memory, expirySeconds });
  }

  get #deadName(): string {
    return `${this.#name}.dead`;
  }

  #action(verb: string): string {
    return `${verb} ("${this.#name}")`;
  }

  readonly #run: RunScript = (verb, script, values, moreKeys) => {
    let keys = this.#scriptKeys.get(script);
    if (keys === undefined) {
      keys = script.keys.map((index) => this.#keys[index]!);
      this.#scriptKeys.set(script, keys);
    }
    const all = moreKeys === undefined ? keys : [...keys, ...moreKeys];
    return this.#link.run(this.#action(verb), script, all, values);
  };
}
