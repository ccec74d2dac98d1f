// Injects the faults of a schedule into workers, the engine and the queue.

import { setTimeout as sleep } from "node:timers/promises";
import { type FaultKind, isServerFault } from "./options.ts";
import type { ChaosEngine } from "./sites.ts";
import type { PlannedFault } from "./_schedule.ts";
import type { Workers } from "./_workers.ts";

/** A call that began during an outage may fail this long after it: the time limit of a call. */
const AFTERMATH_MS = 6_000;

/** Makes outages of the engine, one at a time. */
export class Outages {
  /** When the server was killed, in milliseconds since the Unix epoch. */
  readonly crashes: number[] = [];
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
    await this.#during(
      async () => {
        await server.kill();
        this.crashes.push(Date.now());
      },
      ms,
      () => server.start(),
    );
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

/** How long the faults last that last. The share of a fault is from 0 to 1. */
export interface FaultTimes {
  suspendMs(share: number): number;
  freezeMs(share: number): number;
}

/** What {@linkcode Faults} needs. */
export interface FaultsOptions {
  readonly schedule: readonly PlannedFault[];
  readonly workers: Workers;
  readonly outages: Outages;
  readonly times: FaultTimes;
  /** Pauses the queue for `ms` milliseconds. Rejects when the engine does not confirm it. */
  readonly pause: (ms: number) => Promise<void>;
}

/** The numbers of faults by kind. */
export type FaultCounts = Partial<Record<FaultKind, number>>;

/** Injects the faults of a schedule. It skips a fault that is not possible at its time. */
export class Faults {
  /** The faults that were injected. */
  readonly counts: FaultCounts = {};
  /** The faults that were not possible at their time: an outage was going on, or no worker was working. */
  readonly skipped: FaultCounts = {};
  readonly #options: FaultsOptions;
  readonly #pending = new Set<Promise<void>>();

  constructor(options: FaultsOptions) {
    this.#options = options;
  }

  /** Injects the faults, each at its time. Resolves when the last one is over. */
  async run(): Promise<void> {
    const startedAt = performance.now();
    for (const planned of this.#options.schedule) {
      await sleep(Math.max(0, startedAt + planned.atMs - performance.now()));
      const fault = this.#inject(planned).then((injected) => {
        const counts = injected ? this.counts : this.skipped;
        counts[planned.kind] = (counts[planned.kind] ?? 0) + 1;
      });
      this.#pending.add(fault);
      void fault.finally(() => this.#pending.delete(fault));
    }
    await Promise.all(this.#pending);
  }

  /** Returns false when the fault is not possible now. */
  async #inject({ kind, share, worker: place }: PlannedFault): Promise<boolean> {
    const { workers, outages, times, pause } = this.#options;
    if (isServerFault(kind) || kind === "pause") {
      if (outages.present) return false;
      if (kind === "restart") await outages.restart(share * 1_000);
      else if (kind === "freeze") await outages.freeze(times.freezeMs(share));
      else return await pause(1_000 + share * 2_000).then(() => true, () => false);
      return true;
    }
    const { working } = workers;
    const worker = working[Math.floor(place * working.length)];
    if (worker === undefined) return false;
    if (kind === "suspend") {
      await workers.suspend(worker, times.suspendMs(share));
      return true;
    }
    workers.add();
    await (kind === "term" ? workers.stop(worker) : workers.kill(worker));
    return true;
  }
}
