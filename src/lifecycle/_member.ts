import { deferred } from "../_promises.ts";
import type { Clock } from "../clock.ts";
import type { CancelledError } from "../errors.ts";
import type { Random } from "../random.ts";
import { type Deadline, endsWithin } from "./deadline.ts";
import type { LoopReport } from "./drain_report.ts";
import type { LoopState } from "./group_events.ts";
import type { RestartBudget } from "./group_options.ts";
import { NO_COUNTS, type Runnable, type RunOptions } from "./runnable.ts";

/** Callbacks from a member to its group. */
export interface MemberEvents {
  readonly onState: (member: Member) => void;
  readonly onProblem: (what: string, error: unknown) => void;
}

/**
 * One loop in one run of a group.
 *
 * ```text
 * waiting ─▶ running ─▶ ended
 *              │ ▲  └──▶ failed      (no restart left, or the group is stopping)
 *              ▼ │
 *          backing_off ─▶ ended      (the group is stopping)
 * running, backing_off ─▶ hung       (the deadline passed first)
 * ```
 */
export class Member {
  readonly loop: Runnable;
  readonly done: Promise<void>;
  readonly #finish: () => void;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #restarts: RestartBudget | undefined;
  readonly #events: MemberEvents;
  /** Ends a backoff; undefined for a loop that is not restarted. */
  readonly #stopping: AbortController | undefined;
  #state: LoopState = "waiting";
  restarts = 0;
  error: unknown;
  /** How long the stop took, from the request on. */
  stopMs = 0;
  #stopRequestedAt: number | undefined;

  constructor(
    loop: Runnable,
    { clock, random }: { readonly clock: Clock; readonly random: Random },
    restarts: RestartBudget | undefined,
    events: MemberEvents,
  ) {
    const { promise, resolve } = deferred();
    this.loop = loop;
    this.done = promise;
    this.#finish = resolve;
    this.#clock = clock;
    this.#random = random;
    this.#restarts = restarts;
    this.#stopping = restarts && new AbortController();
    this.#events = events;
  }

  get state(): LoopState {
    return this.#state;
  }

  get active(): boolean {
    return this.#state === "running" || this.#state === "backing_off";
  }

  /** Runs the loop, and restarts it after failures where that is the policy. Never rejects. */
  async run(options: RunOptions): Promise<void> {
    let end: LoopState | undefined;
    while (end === undefined) {
      this.#enter("running");
      end = await this.#runOnce(options);
    }
    if (this.#state !== "hung") this.#enter(end);
    this.#finish();
  }

  /** Asks the loop to stop within `timeoutMs`. Reports an error of `shutdown` as a problem. */
  stop(timeoutMs: number): void {
    if (!this.active || this.#stopRequestedAt !== undefined) return;
    this.#stopRequestedAt = this.#clock.monotonic();
    this.#stopping?.abort();
    this.#contain("shutdown", () => this.loop.shutdown({ timeoutMs, callerCancels: true }));
  }

  /** Cancels the work in flight. */
  cancel(reason: CancelledError): void {
    if (this.active) this.#contain("cancel", () => this.loop.cancel?.(reason));
  }

  /** Lets a hung loop release its messages. */
  async abandon(): Promise<void> {
    if (this.#state === "hung") await this.#contain("abandon", () => this.loop.abandon?.());
  }

  /** Marks a loop that still runs as hung. Returns what a loop that has ended left unfinished. */
  giveUp(): readonly string[] {
    if (this.active) this.#enter("hung");
    return this.#state === "ended" ? this.loop.unfinished ?? [] : [];
  }

  /** Returns the loop's part of the report. */
  report(): LoopReport {
    const { name, inFlight = [], counts = NO_COUNTS } = this.loop;
    return {
      name,
      state: this.#state,
      stopMs: this.stopMs,
      restarts: this.restarts,
      ...(this.#state === "failed" ? { error: this.error } : {}),
      inFlight: this.#state === "hung" ? inFlight : [],
      counts,
    };
  }

  async #runOnce(options: RunOptions): Promise<LoopState | undefined> {
    try {
      await this.loop.run(options);
      return "ended";
    } catch (error) {
      this.error = error;
    }
    if (this.#restarts === undefined || this.#stopRequestedAt !== undefined) return "failed";
    const pauseMs = this.#restarts.nextPauseMs(this.#clock.monotonic(), this.#random);
    if (pauseMs === undefined) return "failed";

    this.#enter("backing_off");
    try {
      await this.#clock.sleep(pauseMs, this.#stopping);
    } catch {
      return "ended"; // stopped during a backoff, when no work is in flight
    }
    this.restarts++;
    return undefined;
  }

  async #contain(what: string, call: () => unknown): Promise<void> {
    try {
      await call();
    } catch (error) {
      this.#events.onProblem(`${what}() of loop "${this.loop.name}" failed`, error);
    }
  }

  #enter(state: LoopState): void {
    this.#state = state;
    if (this.#stopRequestedAt !== undefined) {
      this.stopMs = this.#clock.monotonic() - this.#stopRequestedAt;
    }
    this.#events.onState(this);
  }
}

/**
 * Stops the members, a lower `stopOrder` first and equal ones together. Each gets the smaller of its own
 * timeout and the time left. A hung stage leaves a reserve for each later stage. When only the reserve
 * is left, `cancel` is called with the members that still run.
 */
export async function stopInOrder(
  members: readonly Member[],
  deadline: Deadline,
  clock: Clock,
  cancel: (members: readonly Member[]) => void,
): Promise<void> {
  const orders = groupBy(members, ({ loop }) => loop.stopOrder ?? 0);
  const tiers = [...orders].sort(([a], [b]) => a - b).map(([, tier]) => tier);
  for (const [index, tier] of tiers.entries()) {
    const budgetMs = deadline.budgetMs(tiers.length - index);
    const active = tier.filter((member) => member.active);
    const times = groupBy(
      active,
      ({ loop }) => Math.min(budgetMs, loop.shutdownTimeoutMs ?? budgetMs),
    );
    await Promise.all(
      Array.from(times, ([ms, together]) => stopWithin(ms, together, clock, cancel)),
    );
  }
}

async function stopWithin(
  ms: number,
  members: readonly Member[],
  clock: Clock,
  cancel: (members: readonly Member[]) => void,
): Promise<void> {
  for (const member of members) member.stop(ms);
  await endsWithin(
    allDone(members),
    ms,
    clock,
    () => cancel(members.filter((member) => member.active)),
  );
}

/** Resolves when no member runs any more. */
export async function allDone(members: readonly Member[]): Promise<void> {
  await Promise.all(members.map(({ done }) => done));
}

function groupBy<T>(items: readonly T[], keyOf: (item: T) => number): Map<number, T[]> {
  const groups = new Map<number, T[]>();
  for (const item of items) {
    const group = groups.get(keyOf(item));
    if (group === undefined) groups.set(keyOf(item), [item]);
    else group.push(item);
  }
  return groups;
}
