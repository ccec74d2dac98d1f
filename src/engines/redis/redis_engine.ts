import {
  type Delivery,
  type Engine,
  type Entry,
  FREE_RELEASES,
  type Pulled,
} from "../../mailbox/engine.ts";
import { InvalidParameterError, MailboxFullError } from "../../mailbox/errors.ts";
import { type Capabilities, FULL_CAPABILITIES, MAX_BATCH } from "../../mailbox/mailbox.ts";
import type { Backend } from "./_backend.ts";
import { acknowledgement, Companions } from "./_companions.ts";
import {
  chosenIdOf,
  haveTried,
  headOf,
  isSettled,
  naming,
  peekedDeliveries,
  pulledDeliveries,
  type RedisDelivery,
  type Settled,
} from "./_delivery.ts";
import { isOutOfMemory } from "./_errors.ts";
import { pollNowAndThen } from "../_fallback_poll.ts";
import { channelOf, type Keys, keysOf } from "./_keys.ts";
import { LostPulls } from "./_lost_pulls.ts";
import { COUNT, PEEK, PURGE } from "./scripts/look.ts";
import { PULL } from "./scripts/pull.ts";
import { PUSH } from "./scripts/push.ts";
import { ACKNOWLEDGE, BURY, CHECKPOINT, EXTEND, RELEASE, RETRY } from "./scripts/settle.ts";
import { StorageWatch } from "./_storage_watch.ts";
import type { Script } from "./scripts/script.ts";

/** More at once would hold up everybody else on the server. */
const MAX_PUSH = 10_000;

type Values = readonly (string | number)[];

/** One queue on a server. Its times are the server's, which all its users share. */
export class RedisEngine implements Engine<string> {
  readonly capabilities: Capabilities = FULL_CAPABILITIES;
  readonly label = "Redis";
  readonly #name: string;
  readonly #backend: Backend;
  readonly #maxSize: number;
  readonly #keys: Keys;
  readonly #channel: string;
  readonly #lost: LostPulls;
  readonly #companions: Companions;
  readonly #watch: StorageWatch;

  constructor(name: string, backend: Backend, maxSize: number) {
    this.#name = name;
    this.#backend = backend;
    this.#maxSize = maxSize;
    this.#keys = keysOf(name);
    this.#channel = channelOf(name);
    this.#watch = new StorageWatch(name, backend, this.#keys);
    this.#lost = new LostPulls(backend, this.#keys, this.#channel);
    this.#companions = new Companions((deliveries) => {
      return this.#settle("acknowledge", ACKNOWLEDGE, deliveries, acknowledgement);
    });
  }

  /** Makes sure that what is there is ours, and learns the server's time. */
  greet(): Promise<void> {
    return this.#watch.greet(this.#what("open"));
  }

  async push(entries: readonly Entry<string>[]): Promise<boolean[]> {
    if (entries.length > MAX_PUSH) {
      throw new InvalidParameterError(
        `Cannot send ${entries.length} messages to "${this.#name}" in one step: at most ${MAX_PUSH}, ` +
          "send them in several",
      );
    }
    const room = Math.min(this.#maxSize, Number.MAX_SAFE_INTEGER);
    const values = entries.flatMap((entry) => [
      chosenIdOf(entry),
      microseconds(entry.delayMs),
      headOf(entry),
      entry.body,
    ]);
    const [, stored, count, fresh, duplicates = []] = await this.#push([
      this.#channel,
      room,
      ...values,
    ]);
    if (stored === 1) return entries.map((_, i) => !(duplicates as number[]).includes(i));
    throw new MailboxFullError(
      `Mailbox "${this.#name}" is full: it holds ${count} of ${this.#maxSize} messages and cannot ` +
        `take ${fresh} more; receive some, or raise maxSize`,
    );
  }

  async #push(values: Values): Promise<unknown[]> {
    const { condition } = this.#backend;
    try {
      const reply = await this.#run("send", PUSH, values);
      condition.memory(false);
      const [nowUs, , , , , last] = reply as number[];
      const telling = this.#watch.note(nowUs!, { ghosts: 0, strays: 0, last });
      if (telling !== undefined) await telling;
      return reply;
    } catch (error) {
      if (isOutOfMemory(error)) condition.memory(true);
      throw error;
    }
  }

  async pull(max: number, visibilityMs: number): Promise<Pulled<string>> {
    if (this.#lost.nextLookMs === 0) await this.#lost.giveBack();
    const visibilityUs = microseconds(visibilityMs);
    const pull = (args: Values) =>
      this.#lost.watch(visibilityUs, (nonce) => {
        return this.#pull([max, visibilityUs, nonce, ...args], visibilityUs, nonce);
      });
    return await this.#companions.travel(pull);
  }

  async #pull(
    values: Values,
    visibilityUs: number,
    nonce: string,
  ): Promise<Pulled<string> & { settled: Settled; nowUs: number }> {
    const [nowUs, nextDueUs, notes, settled, seqs = [], records = [], again = []] = await this.#run(
      "receive",
      PULL,
      values,
    ) as [number, number, number[], Settled, string[]?, string[]?, (string | null)[]?];
    const [full, ghosts = 0, strays = 0, last] = notes;
    this.#backend.condition.memory(full === 1);
    const highest = Number(seqs.at(-1) ?? 0);
    const telling = this.#watch.note(nowUs, { ghosts, strays, last, highest });
    if (telling !== undefined) await telling;
    return {
      deliveries: pulledDeliveries({ seqs, records, again }, nonce, nowUs + visibilityUs),
      nextDueMs: Math.min(nextDueUs < 0 ? Infinity : nextDueUs / 1_000, this.#lost.nextLookMs),
      settled,
      nowUs,
    };
  }

  acknowledge(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    return this.#companions.acknowledge(deliveries as readonly RedisDelivery[]);
  }

  extend(deliveries: readonly Delivery<string>[], visibilityMs: number): Promise<boolean[]> {
    const visibilityUs = microseconds(visibilityMs);
    const good = (it: RedisDelivery, nowUs: number) => {
      it.heldUntilUs = Math.max(it.heldUntilUs, nowUs + visibilityUs);
    };
    return this.#settle(
      "extend",
      EXTEND,
      deliveries,
      (batch) => [naming(batch), visibilityUs],
      good,
    );
  }

  retry(
    deliveries: readonly Delivery<string>[],
    delayMs: number,
    spendsAttempt: boolean,
  ): Promise<boolean[]> {
    const values = [this.#channel, microseconds(delayMs), spendsAttempt ? 0 : 1];
    return this.#settle("nack", RETRY, deliveries, (batch) => [naming(batch), ...values]);
  }

  release(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    const values = [this.#channel, FREE_RELEASES];
    return this.#settle("release", RELEASE, deliveries, (batch) => [naming(batch), ...values]);
  }

  async bury(delivery: Delivery<string>, letter: string): Promise<boolean> {
    const { id, replyTo, chosenId } = delivery as RedisDelivery;
    const keys = [...this.#keys, ...keysOf(this.#deadName)];
    const head = headOf({ id, replyTo, dedup: false });
    const values = [
      naming([delivery as RedisDelivery]),
      channelOf(this.#deadName),
      head,
      letter,
      chosenId,
    ];
    try {
      const reply = await this.#backend.calls.run(this.#what("bury"), BURY, keys, values);
      const [nowUs, settled] = reply as [number, Settled];
      return isSettled("bury", settled, 0, delivery as RedisDelivery, nowUs);
    } catch (error) {
      haveTried("bury", [delivery as RedisDelivery]);
      throw error;
    }
  }

  async checkpoint(delivery: Delivery<string>, progress: string): Promise<boolean> {
    const [saved = false] = await this.#settle("checkpoint", CHECKPOINT, [delivery], (batch) => {
      return [naming(batch), progress];
    });
    return saved;
  }

  async peek(max: number): Promise<RedisDelivery[]> {
    return peekedDeliveries(await this.#run("peek", PEEK, [max]));
  }

  async count(): Promise<number> {
    const [, count] = await this.#run("count", COUNT, []);
    return count as number;
  }

  async purge(): Promise<number> {
    const [, count] = await this.#run("purge", PURGE, []);
    return count as number;
  }

  onWake(listener: () => void): () => void {
    if (this.#backend.closed) return () => {};
    const { clock, pollIntervalMs } = this.#backend.options;
    const stopListening = this.#backend.channels.listen(this.#channel, listener);
    const stopPolling = pollNowAndThen(clock, pollIntervalMs, listener);
    return () => {
      stopListening();
      stopPolling();
    };
  }

  /** On the same connection, which this engine closes for both. */
  deadLetters(): RedisEngine {
    return new DeadLetterEngine(this.#deadName, this.#backend, Infinity);
  }

  async close(): Promise<void> {
    await this.#backend.calls.settle();
    await this.#lost.giveBackLast();
    await this.#backend.close();
  }

  get #deadName(): string {
    return `${this.#name}.dead`;
  }

  #what(what: string): string {
    return `${what} ("${this.#name}")`;
  }

  #run(what: string, script: Script, values: Values): Promise<unknown[]> {
    return this.#backend.calls.run(this.#what(what), script, this.#keys, values);
  }

  /** Tells for each whether its receipt was still good, and `good` as well. */
  async #settle(
    what: string,
    script: Script,
    deliveries: readonly Delivery<string>[],
    values: (batch: readonly RedisDelivery[]) => Values,
    good?: (delivery: RedisDelivery, nowUs: number) => void,
  ): Promise<boolean[]> {
    const own = deliveries as readonly RedisDelivery[];
    const results: boolean[] = [];
    try {
      for (let i = 0; i < own.length; i += MAX_BATCH) {
        const batch = own.slice(i, i + MAX_BATCH);
        const reply = await this.#run(what, script, values(batch));
        const [nowUs, settled, full] = reply as [number, Settled, number?];
        if (full !== undefined) this.#backend.condition.memory(full === 1);
        for (const [n, delivery] of batch.entries()) {
          const done = isSettled(what, settled, n, delivery, nowUs);
          if (done) good?.(delivery, nowUs);
          results.push(done);
        }
      }
    } catch (error) {
      haveTried(what, own);
      throw error;
    }
    return results;
  }
}

/** Shares everything with its mailbox, which closes it. */
class DeadLetterEngine extends RedisEngine {
  override close(): Promise<void> {
    return Promise.resolve();
  }
}

/** Never less than was asked for. */
function microseconds(ms: number): number {
  return Math.ceil(ms * 1_000);
}
