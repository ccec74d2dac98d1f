/**
 * A worker of another library as a loop of your group, for examples 15 and 17. Both stop together under one
 * deadline, and `onEmpty` is called when the old queue is empty.
 *
 * The loop does not end when the queue is empty, because a producer may still send to it.
 */

import { BaseLoop, type LoopContext } from "../mod.ts";

/** The operations that the loop needs from the old worker. */
export interface OldWorker {
  /** Starts the worker. Resolves when it has stopped, rejects when it has failed. */
  run(): Promise<unknown>;
  /** Takes no new job, finishes the active ones, and stops. */
  stop(): Promise<unknown>;
  /** Returns the number of jobs that are waiting, delayed or active. */
  left(): Promise<number>;
  /** Called whenever the queue has become empty. */
  onEmpty(): void;
  /** How often to call `left`, in milliseconds. @default {5_000} */
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
      return false; // the server is unavailable; try again later
    }
  }
}
