import { deferred, onAbort } from "../_promises.ts";
import type { Clock } from "../clock.ts";
import type { Maybe } from "./engine.ts";

/** Calls `wake` until its remover is called. */
type Listen = (wake: () => void) => () => Maybe<void>;

/**
 * The receives of one mailbox that wait for a message. A wake-up lets one receive pull, and a receive that
 * ends lets the next one pull: more messages may be there, or it was woken and did not pull, or only it
 * knew when the next message is due. A message wakes few receives, and none is missed.
 */
export class WaitQueue {
  readonly #clock: Clock;
  readonly #listen: Listen;
  readonly #waiters = new Set<() => void>();
  #unlisten: (() => Maybe<void>) | undefined;
  #present = 0;
  /** Counts the wake-ups, so that a receive notices one that came during its pull. */
  wakes = 0;

  /** Listens to the engine only while a receive waits. */
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

  /** The last to leave stops listening, and may have to wait for the engine. */
  leave(): Maybe<void> {
    this.#wakeNext();
    if (--this.#present > 0) return;
    const unlisten = this.#unlisten;
    this.#unlisten = undefined;
    return unlisten?.();
  }

  /** Resolves after `ms`, by a wake-up, or when `signal` aborts. */
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
