import { EventLoopYield } from "../_event_loop_yield.ts";
import { BaseLoop, type LoopContext, type LoopOptions } from "../lifecycle/base_loop.ts";
import type { RunOptions } from "../lifecycle/runnable.ts";

/** The context of one step. */
export interface StepContext extends LoopContext {
  /** The number of the step in this run, from 1. */
  readonly iteration: number;
  /**
   * Waits `ms` milliseconds, or until a stop begins. The step counts as idle meanwhile.
   */
  readonly sleep: (ms: number) => Promise<void>;
}

/** One step of a loop. Return `false` to end the loop; throw to fail it. */
export type Step = (context: StepContext) => Promise<void | boolean> | void | boolean;

/**
 * Runs one step after another until it is stopped. A stop waits for the step in flight; near the deadline
 * the step's `signal` aborts.
 *
 * @example
 * ```ts
 * import { LoopGroup, StepLoop } from "@lastcall/lastcall";
 *
 * const ticker = new StepLoop("ticker", async ({ iteration, sleep }) => {
 *   console.log("tick", iteration);
 *   await sleep(10);
 * });
 * const report = await new LoopGroup([ticker]).run({ maxIterations: 3 });
 * console.assert(report.exitCode === 0);
 * ```
 */
export class StepLoop extends BaseLoop {
  readonly #step: Step;

  /** Creates a loop. Nothing starts before `run`. */
  constructor(name: string, step: Step, options: LoopOptions = {}) {
    super(name, options);
    if (typeof step !== "function") {
      throw new TypeError(
        `Invalid step of loop "${name}": expected a function, got ${typeof step}`,
      );
    }
    this.#step = step;
  }

  /** Runs steps until the stop. */
  protected override async work(context: LoopContext, options: RunOptions): Promise<void> {
    const { maxIterations = Infinity } = options;
    const turns = EventLoopYield.of(this.clock);
    for (let iteration = 1; iteration <= maxIterations; iteration++) {
      await this.admission(context.stopping);
      if (context.stopping.aborted || !await this.#take(context, iteration)) return;
      this.heartbeat.beat();
      if (context.stopping.aborted) return;
      const nextTurn = turns.next();
      if (nextTurn !== undefined) await nextTurn;
    }
  }

  /** Runs one step. Returns false when it was the last. A sleeping step is not in flight. */
  async #take(context: LoopContext, iteration: number): Promise<boolean> {
    const { signal, stopping } = context;
    const begin = () => this.track({ id: `step ${iteration}`, since: this.clock.monotonic() });
    let work = begin();
    let over = false;
    const sleep = async (ms: number) => {
      this.untrack(work);
      await this.#rest(ms, stopping);
      if (!over) work = begin();
    };
    try {
      return await this.#step({ ...context, iteration, sleep }) !== false;
    } catch (error) {
      if (!signal.aborted) throw error;
      return false;
    } finally {
      over = true;
      this.untrack(work);
    }
  }

  async #rest(ms: number, stopping: AbortSignal): Promise<void> {
    this.heartbeat.rest();
    try {
      await this.clock.sleep(ms, { signal: stopping });
    } catch (error) {
      if (!stopping.aborted) throw error;
    }
    await this.admission(stopping);
    this.heartbeat.beat();
  }
}
