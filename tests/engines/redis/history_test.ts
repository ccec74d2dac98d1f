import { describe, it } from "node:test";
import { assertEquals } from "@std/assert";
import { systemClock } from "../../../src/clock.ts";
import { Backend } from "../../../src/engines/redis/_backend.ts";
import { RedisEngine } from "../../../src/engines/redis/redis_engine.ts";
import { silentLog } from "../../../src/log.ts";
import type { Delivery, Engine } from "../../../src/mailbox/engine.ts";
import { MemoryEngine } from "../../../src/mailbox/in_memory_mailbox.ts";
import { cleanUp, gate, uniqueName, url } from "./_redis.ts";

const LONG_MS = 600_000;

/** The same numbers for the same seed. */
function randomOf(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32;
    return Math.floor(state / 2 ** 32 * below);
  };
}

/** What is comparable of a delivery. */
function seen({ id, body, deliveryCount, checkpoint }: Omit<Delivery<string>, "receipt">): unknown {
  return { id, body, deliveryCount, checkpoint };
}

/** Two engines that are given the same commands. */
class Twins {
  readonly #engines: readonly Engine<string>[];
  /** The deliveries of both, in pairs, settled or not. */
  readonly #held: (readonly Delivery<string>[])[] = [];
  #sent = 0;

  constructor(...engines: readonly Engine<string>[]) {
    this.#engines = engines;
  }

  async step(random: (below: number) => number): Promise<void> {
    const some = Array.from({ length: 1 + random(3) }, () => random(this.#held.length))
      .filter((at, i, all) => at < this.#held.length && all.indexOf(at) === i);
    const [mine, count] = [random(4) === 0, 1 + random(5)];
    switch (random(11)) {
      case 0:
      case 1: {
        const entries = Array.from({ length: mine ? 1 : count }, () => ({
          id: mine ? `chosen-${random(3)}` : `id-${++this.#sent}`,
          body: `body-${this.#sent}`,
          delayMs: random(6) === 0 ? LONG_MS : 0,
          dedup: mine,
        }));
        return await this.both((engine) => engine.push(entries));
      }
      case 2:
      case 3:
        return await this.#pull(count);
      case 4:
        return await this.#settle(some, (engine, of) => engine.acknowledge(of));
      case 5:
        return await this.#settle(some, (engine, of) => engine.release(of));
      case 6:
        return await this.#settle(some, (engine, of) => engine.retry(of, 0, mine));
      case 7:
        return await this.#settle(some, (engine, of) => engine.extend(of, LONG_MS));
      case 8:
        return await this.#settle(some.slice(0, 1), async (engine, [of]) => {
          return of && await engine.checkpoint(of, `progress-${count}`);
        });
      case 9:
        return await this.#settle(some.slice(0, 1), async (engine, [of]) => {
          return of && await engine.deadLetter(of, `letter-${of.id}`);
        });
      default:
        if (random(10) === 0) await this.both((engine) => engine.purge());
        await this.both((engine) => engine.count());
        await this.both(async (engine) => (await engine.peek(count)).map((it) => seen(it)));
    }
  }

  /** Both answer the same. */
  async both(act: (engine: Engine<string>, i: number) => unknown): Promise<void> {
    const [a, b] = await Promise.all(this.#engines.map((engine, i) => act(engine, i)));
    assertEquals(a, b);
  }

  async #pull(max: number): Promise<void> {
    const pulled = await Promise.all(this.#engines.map((engine) => engine.pull(max, LONG_MS)));
    const [ours, theirs] = pulled.map(({ deliveries }) => deliveries);
    assertEquals(ours!.map(seen), theirs!.map(seen));
    ours!.forEach((delivery, i) => this.#held.push([delivery, theirs![i]!]));
  }

  async #settle(
    which: readonly number[],
    act: (engine: Engine<string>, deliveries: readonly Delivery<string>[]) => unknown,
  ): Promise<void> {
    if (which.length === 0) return;
    await this.both((engine, i) => act(engine, which.map((at) => this.#held[at]![i]!)));
  }
}

describe("RedisEngine", gate, () => {
  for (const seed of [1, 2, 3, 4, 5]) {
    it(`does what the engine in memory does, whatever it is told (seed ${seed})`, async () => {
      const name = uniqueName();
      const options = { callTimeoutMs: 5_000, pollIntervalMs: 5_000 };
      const backend = new Backend(url, { ...options, clock: systemClock, log: silentLog });
      await backend.open();
      const engine = new RedisEngine(name, backend, Infinity);
      const model = new MemoryEngine<string>(name, Infinity, systemClock);
      try {
        const twins = new Twins(engine, model);
        const dead = new Twins(engine.deadLetters(), model.deadLetters());
        const random = randomOf(seed);
        for (let i = 0; i < 400; i++) await twins.step(random);
        await twins.both((engine) => engine.count());
        await dead.both((engine) => engine.count());
        await dead.both(async (engine) => {
          return (await engine.pull(1_000, LONG_MS)).deliveries.map((it) => seen(it));
        });
      } finally {
        await engine.close();
        await cleanUp(name);
      }
    });
  }
});
