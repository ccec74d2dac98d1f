import type { CancelledError, LeaseLostError } from "../errors.ts";
import type { Lease } from "../lease/lease.ts";
import type { Heartbeat } from "../lifecycle/watchdog.ts";
import type { Log } from "../log.ts";
import type { DeadLetterReason, Message } from "../mailbox/mailbox.ts";

/** The context of a handler call. */
export interface HandlerContext {
  /** Aborts when a stop begins: finish, or end at the next safe point. */
  readonly stopping: AbortSignal;
  /**
   * Aborts when the work must end: the deadline is near, the stop was forced (both with a
   * {@linkcode CancelledError}), or the lease was lost (with a {@linkcode LeaseLostError}).
   */
  readonly signal: AbortSignal;
  /** Records a heartbeat for the watchdog, and for the lease where its extension depends on it. */
  readonly beat: () => void;
  /** Saves a checkpoint. The next delivery of the message has it as `message.checkpoint`. */
  readonly checkpoint: (progress: unknown) => Promise<void>;
  /**
   * Stops extending the lease, and waits for an extension in progress. What follows, such as a reply, has
   * the visibility timeout to finish.
   */
  readonly endLease: () => Promise<void>;
  /** The number of this attempt, from 1. */
  readonly attempt: number;
  /** The loop's log. */
  readonly log: Log;
}

/** Handles one message. The loop acknowledges it when this returns, and retries it when this throws. */
export type Handler<T, R = unknown> = (
  message: Message<T, R>,
  context: HandlerContext,
) => Promise<unknown> | unknown;

/** Called with a message that is about to be dead-lettered. */
export type OnDeadLetter<T, R = unknown> = (
  message: Message<T, R>,
  reason: DeadLetterReason,
) => Promise<unknown> | unknown;

/** The state that all message contexts of one loop share. */
export interface WorkShared {
  readonly stopping: AbortSignal;
  readonly heartbeat: Heartbeat;
  readonly log: Log;
}

/**
 * The context of one message. Its parts are created on first use, because most handlers use few of them.
 */
export class MessageContext implements HandlerContext {
  readonly #shared: WorkShared;
  readonly #message: Message<unknown, never>;
  readonly #lease: Lease;
  #abort: AbortController | undefined;
  #reason: CancelledError | LeaseLostError | undefined;

  constructor(shared: WorkShared, message: Message<unknown, never>, lease: Lease) {
    this.#shared = shared;
    this.#message = message;
    this.#lease = lease;
    lease.worker = this;
  }

  get stopping(): AbortSignal {
    return this.#shared.stopping;
  }

  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      this.#abort = new AbortController();
      if (this.#reason !== undefined) this.#abort.abort(this.#reason);
    }
    return this.#abort.signal;
  }

  get beat(): () => void {
    return () => {
      this.#shared.heartbeat.beat();
      this.#lease.beat();
    };
  }

  get checkpoint(): (progress: unknown) => Promise<void> {
    return (progress) => this.#message.saveCheckpoint(progress);
  }

  get endLease(): () => Promise<void> {
    return async () => await this.#lease.stop();
  }

  get attempt(): number {
    return this.#message.deliveryCount;
  }

  get log(): Log {
    return this.#shared.log;
  }

  /** Why the work was cancelled, if it was. */
  get reason(): CancelledError | LeaseLostError | undefined {
    return this.#reason;
  }

  /** Cancels the work. Only the first reason counts. */
  cancel(reason: CancelledError | LeaseLostError): void {
    if (this.#reason !== undefined) return;
    this.#reason = reason;
    this.#abort?.abort(reason);
  }
}
