import type { Cancel, Clock } from "../../clock.ts";
import type { Log } from "../../log.ts";

/** How often a process looks for owners that have died, in milliseconds. */
const LOOK_INTERVAL_MS = 1_000;

/** An answer that took longer tells about a later time than that at which the look began. */
const PROMPT_MS = 100;

/** What an engine tells of the processes that lease messages of a queue, its owners. */
export interface OwnerRegistry<O> {
  /**
   * Returns the registered owners, other than this process, that the engine cannot see now. Leaves out owners
   * that the engine cannot judge, such as those that have not registered since the server started.
   */
  absent(): Promise<readonly O[]>;
  /**
   * Expires the leases of an owner that has died, removes the owner, and wakes receivers. Returns how many
   * messages became visible, for all queues by their names if the owners are not those of one queue.
   */
  expire(owner: O): Promise<number | Readonly<Record<string, number>>>;
}

/** Options of {@linkcode OwnerWatch}. */
export interface OwnerWatchOptions {
  /** The name of the queue, for logs. */
  readonly queue: string;
  /** The clock of its looks. */
  readonly clock: Clock;
  /** Hears of workers that have died. */
  readonly log: Log;
  /** How long an owner must be absent: long enough to reconnect. 0 when an absent owner is dead for sure. */
  readonly graceMs: number;
}

/**
 * Finds owners that have died, and lets their messages be received by others.
 *
 * A receive calls `look`, which asks the engine at most once a second. An owner that is absent for the whole
 * grace, in each look of it, has died. While one is absent, a timer continues to look, because this process may
 * be busy and receive nothing. Answers that are further apart than the grace, as after a suspension of this
 * process or of the engine, prove nothing: the grace begins again.
 */
export class OwnerWatch<O extends string | number> {
  readonly #registry: OwnerRegistry<O>;
  readonly #options: OwnerWatchOptions;
  /** Since when each owner is absent, by the monotonic clock. */
  #absentSince = new Map<O, number>();
  #lookedAt = -Infinity;
  #answeredAt = -Infinity;
  #looking: Promise<void> | undefined;
  #cancel: Cancel | undefined;
  #stopped = false;

  /** Creates a watch that has not looked yet. */
  constructor(registry: OwnerRegistry<O>, options: OwnerWatchOptions) {
    this.#registry = registry;
    this.#options = options;
  }

  /**
   * The time until the next look is due, in milliseconds. A receive that waits longer would delay it. It is
   * never 0, which a mailbox takes for a message that is ready.
   */
  get nextLookMs(): number {
    // A look that takes longer must not let receives follow one another without a pause.
    return this.#looking === undefined ? Math.max(1, this.#dueMs) : LOOK_INTERVAL_MS;
  }

  /** Looks for dead owners in the background, if a look is due. */
  look(): void {
    if (this.#dueMs <= 0) this.#start();
  }

  get #dueMs(): number {
    return this.#lookedAt + LOOK_INTERVAL_MS - this.#options.clock.monotonic();
  }

  #start(): void {
    if (this.#stopped || this.#looking !== undefined) return;
    this.#looking = this.#look().finally(() => {
      this.#looking = undefined;
      this.#continue();
    });
  }

  /** Ends the timer, and resolves when a running look has ended. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancel?.();
    await this.#looking;
  }

  async #look(): Promise<void> {
    const { clock, graceMs, log, queue } = this.#options;
    const now = clock.monotonic();
    this.#lookedAt = now;
    try {
      const absent = await this.#registry.absent();
      const answeredAt = clock.monotonic();
      const apartMs = answeredAt - this.#answeredAt;
      const isContinued = apartMs <= Math.max(graceMs, 2 * LOOK_INTERVAL_MS);
      this.#answeredAt = answeredAt;
      const seenAt = answeredAt - now > PROMPT_MS ? answeredAt : now;
      const before = isContinued ? this.#absentSince : new Map<O, number>();
      this.#absentSince = new Map(absent.map((owner) => [owner, before.get(owner) ?? seenAt]));
      for (const [owner, since] of this.#absentSince) {
        if (this.#stopped || graceMs > 0 && now - since < graceMs) continue;
        const expired = await this.#registry.expire(owner);
        this.#absentSince.delete(owner);
        const queues = typeof expired === "number" ? { [queue]: expired } : expired;
        for (const [mailbox, messages] of Object.entries(queues)) {
          const fields = { mailbox, owner, messages };
          // A process may end without closing its mailbox: that is no reason to warn.
          if (messages === 0) log.debug("worker ended; it held no message", fields);
          else log.warn("worker died; its messages are delivered again", fields);
        }
      }
    } catch (error) {
      // The engine is away: nothing is known about its owners. A receive reports the failure.
      this.#absentSince.clear();
      log.debug("cannot look for workers that have died", { mailbox: queue, error });
    }
  }

  #continue(): void {
    this.#cancel?.();
    if (this.#stopped || this.#absentSince.size === 0) return;
    this.#cancel = this.#options.clock.schedule(LOOK_INTERVAL_MS, () => this.#start());
  }
}
