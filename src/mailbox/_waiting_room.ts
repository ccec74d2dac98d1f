import { deferred, onAbort } from "../_promises.ts";
import type { Clock } from "../clock.ts";

/**
 * Where receivers wait for a message. A wake lets one of them look; whoever finds something lets the
 * next one look, so that a message wakes as few as possible and none is left lying.
 */
export class WaitingRoom {
  readonly #clock: Clock;
  readonly #listen: (wake: () => void) => () => void;
  readonly #waiters = new Set<() => void>();
  #unlisten: (() => void) | undefined;
  #present = 0;
  /** Counts the wakes, for those that look at this moment and do not wait yet. */
  wakes = 0;

  /** `listen` watches the engine, and is used only while somebody is here. */
  constructor(clock: Clock, listen: (wake: () => void) => () => void) {
    this.#clock = clock;
    this.#listen = listen;
  }

  enter(): void {
    this.#present++;
    this.#unlisten ??= this.#listen(() => {
      this.wakes++;
      this.wakeNext();
    });
  }

  /** Whoever leaves without a look may have been the one that was woken. */
  leave(looked: boolean): void {
    if (!looked) this.wakeNext();
    if (--this.#present > 0) return;
    this.#unlisten?.();
    this.#unlisten = undefined;
  }

  /** Resolves after `ms`, by a wake, or when `signal` aborts. */
  async wait(ms: number, signal: AbortSignal | undefined): Promise<void> {
    const { promise, resolve } = deferred();
    const cancel = this.#clock.schedule(ms, resolve);
    const unlink = onAbort(signal, resolve);
    this.#waiters.add(resolve);
    await promise;
    this.#waiters.delete(resolve);
    cancel();
    unlink();
  }

  wakeNext(): void {
    for (const wake of this.#waiters) {
      this.#waiters.delete(wake);
      return wake();
    }
  }

  wakeAll(): void {
    for (const wake of this.#waiters) wake();
  }
}
