/**
 * The bridge of examples 15 and 17: a worker of another library as a loop of your group. Both stop together,
 * under one deadline, and the old one ends by itself when nothing is left for it to do.
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
  /** How often to ask that. @default {5_000} */
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
    await Promise.race([running, this.#empty(stopping, beat)]);
    await this.#old.stop();
    await running;
  }

  /** Resolves when the old queue is empty, or a stop begins. */
  async #empty(stopping: AbortSignal, beat: () => void): Promise<void> {
    while (!stopping.aborted && await this.#old.left() > 0) {
      beat(); // the watchdog is told that this loop is alive
      try {
        await this.clock.sleep(this.#old.everyMs ?? 5_000, { signal: stopping });
      } catch {
        return; // a stop has begun
      }
    }
  }
}
