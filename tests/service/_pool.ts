import { nextTurn } from "../../src/clock.ts";
import { silentLog } from "../../src/log.ts";
import {
  type AttemptEvent,
  type PoolCall,
  type WorkerHealth,
  WorkerPool,
  type WorkerPoolOptions,
} from "../../src/service/mod.ts";
import { VirtualClock } from "../../src/testing/mod.ts";

/** A pool on a virtual clock, whose workers do what a test says. */
export class Yard implements AsyncDisposable {
  readonly clock: VirtualClock = new VirtualClock();
  readonly health: Record<string, WorkerHealth | boolean | Error | "hangs"> = {};
  readonly events: AttemptEvent[] = [];
  readonly checks: string[] = [];
  readonly pool: WorkerPool;

  constructor(names: readonly string[], options: Partial<WorkerPoolOptions> = {}) {
    for (const name of names) this.health[name] = true;
    this.pool = new WorkerPool({
      workers: names.map((id) => ({ id, url: `http://${id}` })),
      clock: this.clock,
      log: silentLog,
      probe: ({ id }) => {
        this.checks.push(id);
        const health = this.health[id] ?? false;
        if (health === "hangs") return new Promise(() => {});
        return health instanceof Error ? Promise.reject(health) : Promise.resolve(health);
      },
      ...options,
    });
    this.pool.on("attempt", (event) => this.events.push(event));
  }

  async start(): Promise<this> {
    const started = this.pool.start();
    // What is loaded takes real time, and the clock must not run before the workers are asked.
    while (this.clock.pending === 0) await nextTurn();
    await this.clock.until(started);
    return this;
  }

  /** Which workers were asked, and what came of it. */
  get asked(): readonly string[] {
    return this.events.map(({ worker, outcome }) => `${worker} ${outcome}`);
  }

  /** Who would be asked now, `times` times; each holds its slot with `hold`. */
  async order(times: number, hold?: Promise<void>): Promise<string> {
    const names: string[] = [];
    for (let index = 0; index < times; index++) {
      const call: PoolCall<void> = ({ id }) => {
        names.push(id);
        return hold ?? Promise.resolve();
      };
      const done = this.pool.run(call);
      if (hold === undefined) await done;
      else await this.clock.settle();
    }
    return names.join("");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.pool.stop();
    await this.clock.settle();
    if (this.clock.pending > 0) throw new Error(`${this.clock.pending} timers are left`);
  }
}
