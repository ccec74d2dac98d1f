// Random commands to the engine of Redis and to the engine in memory, which is the model: both must answer
// the same.

import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { deferred } from "../../../src/_promises.ts";
import { systemClock } from "../../../src/clock.ts";
import type {
  Delivery,
  Engine,
  Entry,
  Handover,
  StoredMessage,
} from "../../../src/mailbox/engine.ts";
import { MemoryEngine } from "../../../src/mailbox/memory_engine.ts";
import { seededRandom } from "../../../src/random.ts";
import { seed as first } from "../../_seed.ts";
import { cleanUp, gate, look, openEngine, uniqueName } from "./_redis.ts";

const LONG_MS = 600_000;
const COMMANDS = 400;

/** To replay one of them alone, set LASTCALL_SEED to it: it is the first one then. */
const seeds = Array.from({ length: 5 }, (_, i) => first + i);

/** Returns the part of a message that is the same in both engines. */
function comparable(message: StoredMessage<string>): unknown {
  const { id, body, meta, deliveryCount, checkpoint, state } = message;
  return { id, body, meta, deliveryCount, checkpoint, state };
}

/** Two engines that get the same commands. */
class Pair {
  readonly #engines: readonly Engine<string>[];
  readonly #below: (limit: number) => number;
  /** The deliveries of both, in pairs, settled or not. */
  readonly #deliveries: (readonly Delivery<string>[])[] = [];
  #sent = 0;
  /** The ids of all messages sent, stored or not. */
  readonly #ids: string[] = ["unknown"];

  constructor(engines: readonly Engine<string>[], below: (limit: number) => number) {
    this.#engines = engines;
    this.#below = below;
  }

  /** Runs a random command. */
  async step(): Promise<void> {
    const below = this.#below;
    const some = Array.from({ length: 1 + below(3) }, () => below(this.#deliveries.length))
      .filter((at, i, all) => at < this.#deliveries.length && all.indexOf(at) === i);
    const [flag, count] = [below(4) === 0, 1 + below(5)];
    switch (below(16)) {
      case 0:
      case 1: {
        const entries = Array.from({ length: flag ? 1 : count }, () => this.#entry(flag));
        return await this.compare((engine) => engine.send(entries));
      }
      case 2:
      case 3:
        return await this.#receive(count);
      case 4:
        return await this.#settle(some, (engine, of) => engine.acknowledge(of));
      case 5:
        return await this.#settle(some, (engine, of) => engine.release(of));
      case 6:
        return await this.#settle(some, (engine, of) => engine.nack(of, 0, flag));
      case 7:
        return await this.#settle(some, (engine, of) => engine.extend(of, LONG_MS));
      case 8:
        return await this.#settle(some.slice(0, 1), async (engine, [of]) => {
          return of && await engine.checkpoint(of, `checkpoint-${count}`);
        });
      case 9: {
        const { id, body, meta, dedup } = this.#entry(false);
        const letter = { id, body, meta, dedup, delayMs: 0 };
        return await this.#settle(some.slice(0, 1), async (engine, [of]) => {
          return of && await engine.deadLetter(of, letter);
        });
      }
      case 10: {
        const id = this.#ids[below(this.#ids.length)]!;
        if (flag) return await this.compare((engine) => engine.cancel!(id));
        if (below(2) === 0) return await this.compare((engine) => engine.deliverNow!(id));
        return await this.compare(async (engine) => {
          const found = await engine.find!(id);
          return found && comparable(found);
        });
      }
      case 11: {
        // Often enough for a few messages to be waiting by then, and seldom two in a row.
        const forMs = flag ? [LONG_MS, Infinity][below(2)]! : 0;
        await this.compare((engine) => engine.pause!(forMs));
        return await this.#receive(flag ? count : 1);
      }
      case 12:
        return await this.compare(async (engine) => {
          const { oldestWaitingMs, pausedForMs, ...stats } = await engine.stats();
          const leftMs = pausedForMs && Math.ceil(pausedForMs / LONG_MS) * LONG_MS;
          return { ...stats, someWait: oldestWaitingMs !== undefined, leftMs };
        });
      case 13: {
        // Seldom, because a limit is used up soon. The same period keeps what was delivered before.
        const perMs = LONG_MS * (1 + below(2));
        const limit = flag ? { max: 2 * count, perMs } : undefined;
        await this.compare((engine) => engine.rateLimit!(limit));
        return await this.#receive(count);
      }
      case 14:
        return await this.#wait(count);
      default: {
        if (below(10) === 0) await this.compare((engine) => engine.purge());
        await this.compare((engine) => engine.count());
        await this.compare(async (engine) => (await engine.peek(count)).map(comparable));
        const skip = below(2 * count);
        await this.compare(async (engine) => (await engine.peek(count, skip)).map(comparable));
      }
    }
  }

  /** Cancels every message that is left. */
  async cancelAll(): Promise<void> {
    for (const id of this.#ids) await this.compare((engine) => engine.cancel!(id));
    await this.compare((engine) => engine.pause!(0));
    await this.compare((engine) => engine.rateLimit!(undefined));
    await this.#receive(10);
    await this.compare((engine) => engine.count());
  }

  /** Runs a command on both engines and compares the answers. */
  async compare(act: (engine: Engine<string>, i: number) => unknown): Promise<void> {
    const [ours, model] = await Promise.all(this.#engines.map((engine, i) => act(engine, i)));
    assertEquals(ours, model);
  }

  #entry(dedup: boolean): Entry<string> {
    const below = this.#below;
    const id = dedup ? `chosen-${below(5)}` : `id-${++this.#sent}`;
    this.#ids.push(id);
    return {
      id,
      body: `body-${this.#sent}`,
      meta: below(2) === 0 ? undefined : `meta \n "${this.#sent}"`,
      delayMs: below(6) === 0 ? LONG_MS : 0,
      dedup,
      ...(dedup && below(3) === 0 && { dedupMs: LONG_MS }),
      ...(below(2) === 0 && { key: `key ${below(3)}` }),
      ...(below(3) === 0 && { priority: below(10) }),
      checkpoint: below(4) === 0 ? `sent checkpoint-${this.#sent}` : undefined,
    };
  }

  async #receive(max: number, waits = false): Promise<void> {
    const received = await Promise.all(
      this.#engines.map((engine) => engine.receive(max, LONG_MS, waits)),
    );
    const [ours, model] = received.map(({ deliveries }) => deliveries);
    this.#record(ours!, model!);
  }

  /** Receives and, when nothing is there, sends: the message that a receive would deliver is handed over. */
  async #wait(count: number): Promise<void> {
    const [ours, model] = this.#engines;
    const handed = deferred<Handover<string>>();
    const leave = ours!.onWake((handover) => handover && handed.resolve(handover));
    try {
      const known = this.#deliveries.length;
      await this.#receive(1, true);
      const { paused, rateLimit } = await model!.stats();
      if (this.#deliveries.length > known || paused || rateLimit !== undefined) return;
      const entries = Array.from({ length: count }, () => this.#entry(false));
      await this.compare((engine) => engine.send(entries));
      const { deliveries } = await model!.receive(1, LONG_MS);
      if (deliveries.length > 0) this.#record((await handed.promise).deliveries, deliveries);
    } finally {
      await leave();
    }
  }

  #record(ours: readonly Delivery<string>[], model: readonly Delivery<string>[]): void {
    assertEquals(ours.map(comparable), model.map(comparable));
    assertEquals(ours.map((it) => it.leaseExpiries), model.map((it) => it.leaseExpiries));
    ours.forEach((delivery, i) => this.#deliveries.push([delivery, model[i]!]));
  }

  async #settle(
    which: readonly number[],
    act: (engine: Engine<string>, deliveries: readonly Delivery<string>[]) => unknown,
  ): Promise<void> {
    if (which.length === 0) return;
    await this.compare((engine, i) => act(engine, which.map((at) => this.#deliveries[at]![i]!)));
  }
}

describe("RedisEngine and its model", gate, () => {
  for (const seed of seeds) {
    it(`Redis answers random commands as the engine in memory does (seed ${seed})`, async () => {
      const name = uniqueName();
      const engine = await openEngine(name, true);
      const model = new MemoryEngine<string>(name, Infinity, systemClock);
      const random = seededRandom(seed);
      const below = (limit: number) => Math.floor(random.number() * limit);
      try {
        const pair = new Pair([engine, model], below);
        const deadLetters = new Pair([engine.deadLetters(), model.deadLetters()], below);
        for (let i = 0; i < COMMANDS; i++) await pair.step();
        await pair.compare((engine) => engine.count());
        await deadLetters.compare((engine) => engine.count());
        await deadLetters.compare(async (engine) => {
          return (await engine.receive(1_000, LONG_MS)).deliveries.map(comparable);
        });
        await pair.cancelAll();
        await using behind = look();
        const left = await behind.redis.keys(`{lastcall:${name}}:*`);
        const parts = left.map((key) => key.split(":")[2]!)
          .filter((part) => part !== "cancel" && part !== "owners");
        const ids = await behind.redis.zrange(`{lastcall:${name}}:times`, 0, "-1");
        assertEquals(ids.filter((id) => !id.startsWith("=chosen-")), []);
        assertEquals(parts.sort(), ids.length === 0 ? ["meta"] : ["meta", "times"]);
      } finally {
        await engine.close();
        await cleanUp(name);
      }
    });
  }
});
