import { type Delivery, type Entry, FREE_RELEASES } from "../../mailbox/engine.ts";
import { MAX_BATCH } from "../../mailbox/mailbox.ts";
import {
  ackArguments,
  encodeHandles,
  type HandleResults,
  indexOf,
  isSettled,
  markFailed,
  microseconds,
  type RedisDelivery,
} from "./_delivery.ts";
import { headOf } from "./_head.ts";
import type { RunScript, Values } from "./redis_link.ts";
import type { QueueScript } from "./scripts/script.ts";
import { ACKNOWLEDGE, CHECKPOINT, DEAD_LETTER, EXTEND, NACK, RELEASE } from "./scripts/settle.ts";
import type { MemoryWatch } from "./_storage_watch.ts";

/** What a {@linkcode Settler} needs of its engine. */
export interface SettlerOptions {
  readonly memory: MemoryWatch;
  /** The keys of the dead letters. */
  readonly deadKeys: readonly string[];
  /** In how many seconds the server deletes the queue when it is not used; 0 means never. */
  readonly expirySeconds: number;
  readonly run: RunScript;
}

/** The calls of an engine that need a receipt handle. */
export class Settler {
  readonly #options: SettlerOptions;

  constructor(options: SettlerOptions) {
    this.#options = options;
  }

  acknowledge(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    return this.#settle("acknowledge", ACKNOWLEDGE, deliveries, ackArguments);
  }

  extend(deliveries: readonly Delivery<string>[], visibilityMs: number): Promise<boolean[]> {
    const visibilityUs = microseconds(visibilityMs);
    const onExtended = (it: RedisDelivery, nowUs: number) => {
      it.leaseEndsAtUs = Math.max(it.leaseEndsAtUs, nowUs + visibilityUs);
    };
    return this.#settle("extend", EXTEND, deliveries, withHandles(visibilityUs), { onExtended });
  }

  nack(
    deliveries: readonly Delivery<string>[],
    delayMs: number,
    countsAttempt: boolean,
  ): Promise<boolean[]> {
    const values = withHandles(microseconds(delayMs), countsAttempt ? 0 : 1);
    return this.#settle("nack", NACK, deliveries, values);
  }

  release(deliveries: readonly Delivery<string>[]): Promise<boolean[]> {
    return this.#settle("release", RELEASE, deliveries, withHandles(FREE_RELEASES));
  }

  async deadLetter(delivery: Delivery<string>, letter: Entry<string>): Promise<boolean> {
    const { deadKeys, expirySeconds } = this.#options;
    const own = delivery as RedisDelivery;
    const special = own.special === undefined ? [] : [own.special];
    const indexes = [indexOf(own), indexOf(letter)];
    const values = withHandles(...indexes, headOf(letter), letter.body, expirySeconds, ...special);
    const more = { moreKeys: deadKeys };
    return (await this.#settle("dead-letter", DEAD_LETTER, [delivery], values, more))[0]!;
  }

  async checkpoint(delivery: Delivery<string>, checkpoint: string): Promise<boolean> {
    const values = withHandles(checkpoint);
    return (await this.#settle("checkpoint", CHECKPOINT, [delivery], values))[0]!;
  }

  /** Returns for each delivery whether its receipt handle was valid. */
  async #settle(
    verb: string,
    script: QueueScript,
    deliveries: readonly Delivery<string>[],
    values: (batch: readonly RedisDelivery[]) => Values,
    { onExtended, moreKeys }: {
      readonly onExtended?: (delivery: RedisDelivery, nowUs: number) => void;
      readonly moreKeys?: readonly string[];
    } = {},
  ): Promise<boolean[]> {
    const { run, memory } = this.#options;
    const own = deliveries as readonly RedisDelivery[];
    const results: boolean[] = [];
    try {
      for (let i = 0; i < own.length; i += MAX_BATCH) {
        const batch = own.slice(i, i + MAX_BATCH);
        const reply = await run(verb, script, values(batch), moreKeys);
        const [nowUs, handles, full] = reply as [number, HandleResults, number?];
        if (full !== undefined) memory.update(full === 1);
        for (const [n, delivery] of batch.entries()) {
          const settled = isSettled(verb, handles, n, delivery, nowUs);
          if (settled) onExtended?.(delivery, nowUs);
          results.push(settled);
        }
      }
    } catch (error) {
      markFailed(verb, own);
      throw error;
    }
    return results;
  }
}

/** Returns the values of a settling script: the receipt handles, then `values`. */
function withHandles(...values: Values): (batch: readonly RedisDelivery[]) => Values {
  return (batch) => [encodeHandles(batch), ...values];
}
