import { setTimeout as sleep } from "node:timers/promises";
import type { Crew } from "./_crew.ts";
import type { EngineUnderFire } from "./_engines.ts";
import type { FaultKind } from "./options.ts";
import type { SeededRandom } from "./_random.ts";
import type { WorkerProcess } from "./_worker_process.ts";

/** How often each kind comes, beside the others. */
const WEIGHTS: Readonly<Record<FaultKind, number>> = {
  term: 4,
  kill: 3,
  pause: 2,
  restart: 1,
  freeze: 1,
};

/** Calls that met the trouble may fail for this long after it: that is how long a call may take. */
const AFTERMATH_MS = 6_000;

/** What the engine goes through. */
export class EngineTrouble {
  readonly #engine: EngineUnderFire;
  #endsAt = -Infinity;

  constructor(engine: EngineUnderFire) {
    this.#engine = engine;
  }

  /** True while it is in trouble, or was a moment ago. */
  get present(): boolean {
    return performance.now() < this.#endsAt;
  }

  get away(): boolean {
    return this.#endsAt === Infinity;
  }

  async restart(awayMs: number): Promise<void> {
    this.#endsAt = Infinity;
    await this.#engine.kill();
    await sleep(awayMs);
    await this.#engine.start();
    this.#endsAt = performance.now() + AFTERMATH_MS;
  }

  async freeze(awayMs: number): Promise<void> {
    this.#endsAt = Infinity;
    this.#engine.freeze();
    await sleep(awayMs);
    this.#engine.thaw();
    this.#endsAt = performance.now() + AFTERMATH_MS;
  }
}

/** Makes trouble: each kind once at first, in any order, and then at random. */
export class Faults {
  /** How many there were of each kind. */
  readonly counts: Partial<Record<FaultKind, number>> = {};
  readonly #kinds: readonly FaultKind[];
  readonly #random: SeededRandom;
  readonly #crew: Crew;
  readonly #trouble: EngineTrouble;
  readonly #leaseMs: number;
  readonly #underWay = new Set<Promise<void>>();

  constructor(
    kinds: readonly FaultKind[],
    random: SeededRandom,
    crew: Crew,
    trouble: EngineTrouble,
    leaseMs: number,
  ) {
    this.#kinds = kinds;
    this.#random = random;
    this.#crew = crew;
    this.#trouble = trouble;
    this.#leaseMs = leaseMs;
  }

  /** Makes trouble for so long, and returns when all is well again. */
  async run(ms: number, perSecond: number): Promise<void> {
    const first = this.#random.shuffle(this.#kinds);
    for (const endsAt = performance.now() + ms; performance.now() < endsAt;) {
      await sleep(this.#random.between(0.5, 1.5) * 1_000 / perSecond);
      const kind = first.shift() ?? this.#any();
      // Drawn in any case: what follows is the same whatever is possible now.
      const share = this.#random.next();
      const worker = this.#random.pick(this.#crew.working);
      if (isOfEngine(kind) ? this.#trouble.away : worker === undefined) {
        first.push(kind);
        continue;
      }
      const fault = this.#act(kind, share, worker!);
      this.#underWay.add(fault);
      void fault.finally(() => this.#underWay.delete(fault));
    }
    await Promise.all(this.#underWay);
  }

  async #act(kind: FaultKind, share: number, worker: WorkerProcess): Promise<void> {
    this.counts[kind] = (this.counts[kind] ?? 0) + 1;
    switch (kind) {
      case "term":
        this.#crew.hire();
        return await this.#crew.stop(worker);
      case "kill":
        this.#crew.hire();
        return await this.#crew.kill(worker);
      case "pause":
        return await this.#crew.pause(worker, this.#leaseMs * (1.1 + share));
      case "restart":
        return await this.#trouble.restart(share * 1_000);
      case "freeze":
        return await this.#trouble.freeze(this.#leaseMs * (0.2 + 1.5 * share));
    }
  }

  #any(): FaultKind {
    const tickets = this.#kinds.flatMap((kind) => Array<FaultKind>(WEIGHTS[kind]).fill(kind));
    return this.#random.pick(tickets)!;
  }
}

function isOfEngine(kind: FaultKind): boolean {
  return kind === "restart" || kind === "freeze";
}
