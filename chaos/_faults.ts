// Injects faults into workers and the engine.

import { setTimeout as sleep } from "node:timers/promises";
import type { Random } from "../src/random.ts";
import { type FaultKind, isServerFault } from "./options.ts";
import type { ChaosEngine } from "./sites.ts";
import type { WorkerProcess, Workers } from "./_workers.ts";

/** How often each kind occurs, relative to the others. */
const WEIGHTS: Readonly<Record<FaultKind, number>> = {
  term: 4,
  kill: 3,
  suspend: 2,
  restart: 1,
  freeze: 1,
};

/** A call that began during an outage may fail this long after it: the time limit of a call. */
const AFTERMATH_MS = 6_000;

/** Makes outages of the engine, one at a time. */
export class Outages {
  readonly #engine: ChaosEngine;
  #endsAt = -Infinity;

  constructor(engine: ChaosEngine) {
    this.#engine = engine;
  }

  /** True during an outage, and while calls may still fail because of it. */
  get recent(): boolean {
    return performance.now() < this.#endsAt;
  }

  /** True during an outage. */
  get present(): boolean {
    return this.#endsAt === Infinity;
  }

  /** Kills the server and starts it after `ms` milliseconds. */
  async restart(ms: number): Promise<void> {
    const server = this.#engine.server!;
    await this.#during(() => server.kill(), ms, () => server.start());
  }

  /** Freezes the server for `ms` milliseconds. */
  async freeze(ms: number): Promise<void> {
    const server = this.#engine.server!;
    await this.#during(() => server.freeze(), ms, () => server.thaw());
  }

  async #during(
    begin: () => void | Promise<void>,
    ms: number,
    end: () => void | Promise<void>,
  ): Promise<void> {
    this.#endsAt = Infinity;
    await begin();
    await sleep(ms);
    await end();
    this.#endsAt = performance.now() + AFTERMATH_MS;
  }
}

/** What {@linkcode Faults} needs. */
export interface FaultsOptions {
  readonly kinds: readonly FaultKind[];
  readonly random: Random;
  readonly workers: Workers;
  readonly outages: Outages;
  readonly leaseMs: number;
}

/** Injects each kind of fault once, in random order, and then faults at random. */
export class Faults {
  /** The number of injected faults by kind. */
  readonly counts: Partial<Record<FaultKind, number>> = {};
  readonly #options: FaultsOptions;
  readonly #pending = new Set<Promise<void>>();

  constructor(options: FaultsOptions) {
    this.#options = options;
  }

  /** Injects faults for `ms` milliseconds. Resolves when the last one is over. */
  async run(ms: number, perSecond: number): Promise<void> {
    const { kinds, random, workers, outages } = this.#options;
    const first = shuffle(random, kinds);
    const tickets = kinds.flatMap((kind) => Array<FaultKind>(WEIGHTS[kind]).fill(kind));
    for (const endsAt = performance.now() + ms; performance.now() < endsAt;) {
      await sleep((0.5 + random.number()) * 1_000 / perSecond);
      const kind = first.shift() ?? pick(random, tickets)!;
      // Always draws the same numbers, so that a seed makes the same faults on any machine.
      const share = random.number();
      const worker = pick(random, workers.working);
      if (isServerFault(kind) ? outages.present : worker === undefined) {
        first.push(kind);
        continue;
      }
      const fault = this.#inject(kind, share, worker!);
      this.#pending.add(fault);
      void fault.finally(() => this.#pending.delete(fault));
    }
    await Promise.all(this.#pending);
  }

  async #inject(kind: FaultKind, share: number, worker: WorkerProcess): Promise<void> {
    const { workers, outages, leaseMs } = this.#options;
    this.counts[kind] = (this.counts[kind] ?? 0) + 1;
    switch (kind) {
      case "term":
        workers.add();
        return await workers.stop(worker);
      case "kill":
        workers.add();
        return await workers.kill(worker);
      case "suspend":
        return await workers.suspend(worker, leaseMs * (1.1 + share));
      case "restart":
        return await outages.restart(share * 1_000);
      case "freeze":
        return await outages.freeze(leaseMs * (0.2 + 1.5 * share));
    }
  }
}

/** Returns one of the items; undefined when there is none. */
export function pick<T>(random: Random, items: readonly T[]): T | undefined {
  return items[Math.floor(random.number() * items.length)];
}

/** Returns the items in random order. */
export function shuffle<T>(random: Random, items: readonly T[]): T[] {
  const keyed = items.map((item) => ({ item, key: random.number() }));
  return keyed.sort((a, b) => a.key - b.key).map(({ item }) => item);
}
