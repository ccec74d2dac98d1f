import { deferred, onAbort } from "../_promises.ts";
import type { Clock } from "../clock.ts";
import type { Maybe } from "./engine.ts";

/** Calls `wake` until its remover is called. */
type Listen = (wake: () => void) => () => Maybe<void>;

/**
 * Where receivers wait for a message. A wake lets one of them look, and whoever leaves lets the next
 * one look: there may be more, or it was woken and had no chance to look, or it alone knew when the
 * next message falls due. So a message wakes as few as possible and none is left lying.
 */
export class WaitingRoom {
  readonly #clock: Clock;
  readonly #listen: Listen;
  readonly #waiters = new Set<() => void>();
  #unlisten: (() => Maybe<void>) | undefined;
  #present = 0;
  /** Counts the wakes, for those that look at this moment and do not wait yet. */
  wakes = 0;

  /** `listen` watches the engine, and is used only while somebody is here. */
  constructor(clock: Clock, listen: Listen) {
    this.#clock = clock;
    this.#listen = listen;
  }

  enter(): void {
    this.#present++;
    this.#unlisten ??= this.#listen(() => {
      this.wakes++;
      this.#wakeNext();
    });
  }

  /** Whoever leaves last may have to wait until the engine has let go of what was coming. */
  leave(): Maybe<void> {
    this.#wakeNext();
    if (--this.#present > 0) return;
    const unlisten = this.#unlisten;
    this.#unlisten = undefined;
    return unlisten?.();
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

  wakeAll(): void {
    for (const wake of this.#waiters) wake();
  }

  #wakeNext(): void {
    for (const wake of this.#waiters) {
      this.#waiters.delete(wake);
      return wake();
    }
  }
}
