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

/** A pool on a virtual clock whose workers the test controls. */
export class Fixture implements AsyncDisposable {
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
    // Loading modules takes real time, and the clock must not run before the first health checks.
    while (this.clock.pending === 0) await nextTurn();
    await this.clock.until(started);
    return this;
  }

  /** The worker and the outcome of each attempt. */
  get asked(): readonly string[] {
    return this.events.map(({ worker, outcome }) => `${worker} ${outcome}`);
  }

  /** Returns the workers of `times` requests. With `hold`, each request stays in flight until it resolves. */
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
