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
import {
  chosenIdOf,
  encodeReceipts,
  headOf,
  isSettled,
  markAttempted,
  peekedDeliveries,
  pulledDeliveries,
  type RedisDelivery,
  type Settled,
} from "./_delivery.ts";
import { isOutOfMemory } from "./_errors.ts";
import { pollNowAndThen } from "../_fallback_poll.ts";
import { channelOf, type Keys, keysOf } from "./_keys.ts";
import { LostPulls } from "./_lost_pulls.ts";
import { ackArguments, PiggybackedAcks } from "./_piggybacked_acks.ts";
import { COUNT, PEEK, PURGE } from "./scripts/inspect.ts";
import { PULL } from "./scripts/pull.ts";
import { PUSH } from "./scripts/push.ts";
import { ACKNOWLEDGE, BURY, CHECKPOINT, EXTEND, RELEASE, RETRY } from "./scripts/settle.ts";
import { StorageWatch } from "./_storage_watch.ts";
import type { Script } from "./scripts/script.ts";

/** A larger script call would block the other clients of the server. */
const MAX_PUSH = 10_000;

type Values = readonly (string | number)[];

/** One queue on a server. All times are by the server's clock, which its clients share. */
export class RedisEngine implements Engine<string> {
  readonly capabilities: Capabilities = FULL_CAPABILITIES;
  readonly label = "Redis";
  readonly #name: string;
  readonly #backend: Backend;
  readonly #maxSize: number;
  readonly #keys: Keys;
  readonly #channel: string;
  readonly #lost: LostPulls;
  readonly #acks: PiggybackedAcks;
  readonly #watch: StorageWatch;

  constructor(name: string, backend: Backend, maxSize: number) {
    this.#name = name;
    this.#backend = backend;
    this.#maxSize = maxSize;
    this.#keys = keysOf(name);
    this.#channel = channelOf(name);
    this.#watch = new StorageWatch(name, backend, this.#keys);
    this.#lost = new LostPulls(backend, this.#keys, this.#channel);
    this.#acks = new PiggybackedAcks((deliveries) => {
      return this.#settle("acknowledge", ACKNOWLEDGE, deliveries, ackArguments);
    });
  }

  /** Throws when another program wrote the keys. Its reply also sets the server's clock. */
  checkFormat(): Promise<void> {
    return this.#watch.checkFormat(this.#action("open"));
  }

  async push(entries: readonly Entry<string>[]): Promise<boolean[]> {
    if (entries.length > MAX_PUSH) {
      throw new InvalidParameterError(
        `Cannot send ${entries.length} messages to "${this.#name}" in one call: at most ${MAX_PUSH} ` +
          "are allowed. Send them in several calls",
      );
    }
    const room = Math.min(this.#maxSize, Number.MAX_SAFE_INTEGER);
    const values = entries.flatMap((entry) => [
      chosenIdOf(entry),
      microseconds(entry.delayMs),
      headOf(entry),
      entry.body,
    ]);
    const reply = await this.#push([this.#channel, room, ...values]);
    const [, stored, count, fresh, duplicates = []] = reply;
    if (stored === 1) return entries.map((_, i) => !(duplicates as number[]).includes(i));
    throw new MailboxFullError(
      `Mailbox "${this.#name}" is full: it holds ${count} of ${this.#maxSize} messages and cannot ` +
        `take ${fresh} more; receive some, or raise maxSize`,
    );
  }

  async #push(values: Values): Promise<unknown[]> {
    const { memory } = this.#backend;
    try {
      const reply = await this.#run("send", PUSH, values);
      memory.update(false);
      const [nowUs, , , , , last] = reply as number[];
      const reporting = this.#watch.note(nowUs!, { bodiless: 0, orphaned: 0, last });
      if (reporting !== undefined) await reporting;
      return reply;
    } catch (error) {
      if (isOutOfMemory(error)) memory.update(true);
      throw error;
    }
  }

  async pull(max: number, visibilityMs: number): Promise<Pulled<string>> {
    if (this.#lost.nextReleaseMs === 0) await this.#lost.release();
    const visibilityUs = microseconds(visibilityMs);
    const pull = (args: Values) =>
      this.#lost.watch(visibilityUs, (nonce) => {
        return this.#pull([max, visibilityUs, nonce, ...args], visibilityUs, nonce);
      });
    return await this.#acks.pullWith(pull);
  }

  async #pull(
    values: Values,
    visibilityUs: number,
    nonce: string,
  ): Promise<Pulled<string> & { settled: Settled; nowUs: number }> {
    const reply = await this.#run("receive", PULL, values);
    const [nowUs, nextDueUs, notes, settled, seqs = [], records = [], redelivered = []] = reply as [
      number,
      number,
      number[],
      Settled,
      string[]?,
      string[]?,
      (string | null)[]?,
    ];
    const [full, bodiless = 0, orphaned = 0, last] = notes;
    this.#backend.memory.update(full === 1);
    const highest = Number(seqs.at(-1) ?? 0);
    const reporting = this.#watch.note(nowUs, { bodiless, orphaned, last, highest });
    if (reporting !== undefined) await reporting;
    return {
      deliveries: pulledDeliveries({ seqs, records, redelivered }, nonce, nowUs + visibilityUs),
      nextDueMs: Math.min(nextDueUs < 0 ? Infinity : nextDueUs / 1_000, this.#lost.nextReleaseMs),
      settled,
      nowUs,
    };
  }

  acknowledge(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    return this.#acks.acknowledge(deliveries as readonly RedisDelivery[]);
  }

  extend(deliveries: readonly Delivery<string>[], visibilityMs: number): Promise<boolean[]> {
    const visibilityUs = microseconds(visibilityMs);
    const onExtended = (it: RedisDelivery, nowUs: number) => {
      it.leaseEndsAtUs = Math.max(it.leaseEndsAtUs, nowUs + visibilityUs);
    };
    return this.#settle(
      "extend",
      EXTEND,
      deliveries,
      (batch) => [encodeReceipts(batch), visibilityUs],
      onExtended,
    );
  }

  retry(
    deliveries: readonly Delivery<string>[],
    delayMs: number,
    countsAttempt: boolean,
  ): Promise<boolean[]> {
    const values = [this.#channel, microseconds(delayMs), countsAttempt ? 0 : 1];
    return this.#settle("nack", RETRY, deliveries, (batch) => [encodeReceipts(batch), ...values]);
  }

  release(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    const values = [this.#channel, FREE_RELEASES];
    return this.#settle(
      "release",
      RELEASE,
      deliveries,
      (batch) => [encodeReceipts(batch), ...values],
    );
  }

  async bury(delivery: Delivery<string>, deadLetter: string): Promise<boolean> {
    const { id, replyTo, chosenId } = delivery as RedisDelivery;
    const keys = [...this.#keys, ...keysOf(this.#deadName)];
    const head = headOf({ id, replyTo, dedup: false });
    const values = [
      encodeReceipts([delivery as RedisDelivery]),
      channelOf(this.#deadName),
      head,
      deadLetter,
      chosenId,
    ];
    try {
      const reply = await this.#backend.calls.run(this.#action("dead-letter"), BURY, keys, values);
      const [nowUs, settled] = reply as [number, Settled];
      return isSettled("dead-letter", settled, 0, delivery as RedisDelivery, nowUs);
    } catch (error) {
      markAttempted("dead-letter", [delivery as RedisDelivery]);
      throw error;
    }
  }

  async checkpoint(delivery: Delivery<string>, progress: string): Promise<boolean> {
    const [saved = false] = await this.#settle("checkpoint", CHECKPOINT, [delivery], (batch) => {
      return [encodeReceipts(batch), progress];
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

  /** Shares the connection, which this engine closes for both. */
  deadLetters(): RedisEngine {
    return new DeadLetterEngine(this.#deadName, this.#backend, Infinity);
  }

  async close(): Promise<void> {
    await this.#backend.calls.settle();
    await this.#lost.releaseBeforeClose();
    await this.#backend.close();
  }

  get #deadName(): string {
    return `${this.#name}.dead`;
  }

  #action(verb: string): string {
    return `${verb} ("${this.#name}")`;
  }

  #run(verb: string, script: Script, values: Values): Promise<unknown[]> {
    return this.#backend.calls.run(this.#action(verb), script, this.#keys, values);
  }

  /** Returns for each delivery whether its receipt was valid. Calls `onSettled` for the valid ones. */
  async #settle(
    verb: string,
    script: Script,
    deliveries: readonly Delivery<string>[],
    values: (batch: readonly RedisDelivery[]) => Values,
    onSettled?: (delivery: RedisDelivery, nowUs: number) => void,
  ): Promise<boolean[]> {
    const own = deliveries as readonly RedisDelivery[];
    const results: boolean[] = [];
    try {
      for (let i = 0; i < own.length; i += MAX_BATCH) {
        const batch = own.slice(i, i + MAX_BATCH);
        const reply = await this.#run(verb, script, values(batch));
        const [nowUs, settled, full] = reply as [number, Settled, number?];
        if (full !== undefined) this.#backend.memory.update(full === 1);
        for (const [n, delivery] of batch.entries()) {
          const done = isSettled(verb, settled, n, delivery, nowUs);
          if (done) onSettled?.(delivery, nowUs);
          results.push(done);
        }
      }
    } catch (error) {
      markAttempted(verb, own);
      throw error;
    }
    return results;
  }
}

/** Leaves the shared connection open: the engine of the mailbox closes it. */
class DeadLetterEngine extends RedisEngine {
  override close(): Promise<void> {
    return Promise.resolve();
  }
}

/** Rounds up, so that a lease or a delay is never shorter than requested. */
function microseconds(ms: number): number {
  return Math.ceil(ms * 1_000);
}
