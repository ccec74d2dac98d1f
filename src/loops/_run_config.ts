import type { BagItem } from "../_bag.ts";
import type { Clock } from "../clock.ts";
import type { Lease, LeaseExtender } from "../lease/lease_extender.ts";
import type { Work } from "../lifecycle/base_loop.ts";
import type { MessageInFlight } from "../lifecycle/runnable.ts";
import type { Heartbeat } from "../lifecycle/watchdog.ts";
import type { Mailbox, Message } from "../mailbox/mailbox.ts";
import type { DurationHistogram } from "../telemetry/duration_histogram.ts";
import type { HandlerOptions, MessageContext, OnDeadLetter } from "./handler.ts";

/** A message from its receive until it is settled or lost. */
export class Item<T, R> implements Work, BagItem {
  place = -1;
  readonly message: Message<T, R>;
  readonly lease: Lease;
  readonly since: number;
  /** It may have ended its process: it runs alone. */
  readonly isSuspect: boolean;
  /** `cancel` of the mailbox deleted the message. */
  isCancelled = false;
  /** True if it has an outcome. After `abandon`, its handler may still run. */
  isCounted = false;
  /** Set while its handler runs. */
  context: MessageContext | undefined;
  /** When its handler was called, by the monotonic clock. */
  startedAt = 0;

  constructor(message: Message<T, R>, lease: Lease, isSuspect: boolean) {
    this.message = message;
    this.lease = lease;
    this.isSuspect = isSuspect;
    this.since = lease.lastBeat;
  }

  get id(): string {
    return this.message.id;
  }
}

/** How long a suspect waits while another loop of the process runs one. */
export const SUSPECT_WAIT_MS = 1_000;

/**
 * Lets one suspect at a time run in a process: when two loops run a suspect each and the process dies, neither
 * is known to be the cause. The loops of a process have the same clock.
 */
export class SuspectTurn {
  static readonly #turns = new WeakMap<Clock, SuspectTurn>();
  #holder: object | undefined;

  static of(clock: Clock): SuspectTurn {
    const turn = SuspectTurn.#turns.get(clock) ?? new SuspectTurn();
    SuspectTurn.#turns.set(clock, turn);
    return turn;
  }

  /** Returns false while another run has the turn. */
  claim(run: object): boolean {
    this.#holder ??= run;
    return this.#holder === run;
  }

  /** Ends the turn, if this run has it. */
  end(run: object): void {
    if (this.#holder === run) this.#holder = undefined;
  }
}

/** The most messages of {@linkcode messagesInFlight}, and the most names of steps of each. */
const [MOST_MESSAGES, MOST_STEPS] = [10, 10];

/** Tells how far the longest-running messages are. */
export function messagesInFlight<T, R>(
  items: readonly Item<T, R>[],
  now: number,
): readonly MessageInFlight[] {
  return items.filter(({ context }) => context !== undefined)
    .sort((a, b) => a.startedAt - b.startedAt)
    .slice(0, MOST_MESSAGES)
    .map(({ id, message, startedAt }) => {
      const names = finishedSteps(message);
      return {
        id,
        attempt: message.deliveryCount,
        runningMs: now - startedAt,
        finishedSteps: names.length,
        steps: names.slice(-MOST_STEPS),
      };
    });
}

/** Returns the names of the finished steps in the order of their calls. */
function finishedSteps<T, R>(message: Message<T, R>): readonly string[] {
  try {
    return message.steps.toSorted((a, b) => a.place - b.place).map(({ name }) => name);
  } catch {
    return []; // the checkpoint cannot be decoded
  }
}

/** The options of a `MailboxLoop`, checked and complete, and what its run uses of the loop. */
export interface RunConfig<T, R> extends HandlerOptions<T, R> {
  readonly mailbox: Mailbox<T, R>;
  readonly concurrency: number;
  readonly prefetch: number | "auto";
  readonly visibilityTimeoutMs: number;
  readonly waitTimeMs: number;
  readonly extender: LeaseExtender;
  readonly onDeadLetter: OnDeadLetter<T, R> | undefined;
  /** Records how long each handler call takes. */
  readonly durations: DurationHistogram;
  readonly clock: Clock;
  readonly heartbeat: Heartbeat;
  /** Undefined while the loop may receive; otherwise resolves when it may. */
  readonly admission: (stopping: AbortSignal) => Promise<void> | undefined;
}
