import type { CancelledError, LeaseLostError } from "../errors.ts";
import type { Lease } from "../lease/lease.ts";
import type { Heartbeat } from "../lifecycle/watchdog.ts";
import type { Log } from "../log.ts";
import type { DeadLetterReason, Message } from "../mailbox/mailbox.ts";

/** What a handler gets beside its message. */
export interface HandlerContext {
  /** Aborted when a stop begins: find a good place to end, or finish. */
  readonly stopping: AbortSignal;
  /**
   * Aborted when the work must end: the deadline is near, the stop was forced (both with a
   * {@linkcode CancelledError}), or the lease was lost (with a {@linkcode LeaseLostError}).
   */
  readonly signal: AbortSignal;
  /** Tells the watchdog, and the lease where it depends on it, that the work is alive. */
  readonly beat: () => void;
  /** Saves progress; the next delivery of the message has it as `message.checkpoint`. */
  readonly checkpoint: (progress: unknown) => Promise<void>;
  /**
   * Ends the extension of the lease, and waits for one that is under way: what follows, as a reply, has
   * as long as the visibility timeout.
   */
  readonly endLease: () => Promise<void>;
  /** Counts the attempts at this message, from 1. */
  readonly attempt: number;
  /** The loop's log. */
  readonly log: Log;
}

/** Works on one message. When it returns, the message is done; when it throws, it is tried again. */
export type Handler<T, R = unknown> = (
  message: Message<T, R>,
  context: HandlerContext,
) => Promise<unknown> | unknown;

/** Hears of a message that is about to be buried. */
export type OnBury<T, R = unknown> = (
  message: Message<T, R>,
  reason: DeadLetterReason,
) => Promise<unknown> | unknown;

/** What the pieces of work of one loop share. */
export interface WorkShared {
  readonly stopping: AbortSignal;
  readonly heartbeat: Heartbeat;
  readonly log: Log;
}

/**
 * The context of one message. Most handlers look at little of it, so that its parts are made when they
 * are looked at.
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

  /** Why the work was told to end, if it was. */
  get reason(): CancelledError | LeaseLostError | undefined {
    return this.#reason;
  }

  /** Tells the work to end; the first reason counts. */
  cancel(reason: CancelledError | LeaseLostError): void {
    if (this.#reason !== undefined) return;
    this.#reason = reason;
    this.#abort?.abort(reason);
  }
}
