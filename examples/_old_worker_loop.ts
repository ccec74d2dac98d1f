/**
 * The bridge of examples 15 and 17: a worker of another library as a loop of your group. Both stop together,
 * under one deadline, and you are told when nothing is left in the old queue.
 *
 * It does not end by itself when the queue is empty: as long as a single producer sends there, somebody has
 * to work there.
 */

import { BaseLoop, type LoopContext } from "../mod.ts";

/** What the bridge needs to know of the old worker. */
export interface OldWorker {
  /** Starts it. Resolves when it has stopped, rejects when it has failed. */
  run(): Promise<unknown>;
  /** Takes no more, finishes what it has begun, and stops. */
  stop(): Promise<unknown>;
  /** How many jobs are still there: waiting, delayed or being worked on. */
  left(): Promise<number>;
  /** Called whenever the queue has become empty. */
  onEmpty(): void;
  /** How often to ask what is left. @default {5_000} */
  readonly everyMs?: number;
}

export class OldWorkerLoop extends BaseLoop {
  readonly #old: OldWorker;

  constructor(name: string, old: OldWorker) {
    super(name);
    this.#old = old;
  }

  protected override async work({ stopping, beat }: LoopContext): Promise<void> {
    const running = this.#old.run();
    await Promise.race([running, this.#watch(stopping, beat)]);
    await this.#old.stop();
    await running;
  }

  /** Resolves when a stop begins. */
  async #watch(stopping: AbortSignal, beat: () => void): Promise<void> {
    for (let wasEmpty = false; !stopping.aborted;) {
      const empty = await this.#isEmpty();
      if (empty && !wasEmpty) this.#old.onEmpty();
      wasEmpty = empty;
      beat(); // tells the watchdog that this loop is alive
      await this.clock.sleep(this.#old.everyMs ?? 5_000, { signal: stopping }).catch(() => {});
    }
  }

  async #isEmpty(): Promise<boolean> {
    try {
      return await this.#old.left() === 0;
    } catch {
      return false; // the server is away; it is asked again
    }
  }
}
