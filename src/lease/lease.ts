import type { LeaseLostError } from "../errors.ts";
import type { Message } from "../mailbox/mailbox.ts";

/** Counts what the extension of leases came to. */
export interface LeaseCounters {
  /** Extensions asked for. */
  readonly attempts: number;
  /** Those that failed for a while; the work went on. */
  readonly failures: number;
  /** Leases that were lost: the message went back while it was being worked on. */
  readonly losses: number;
  /** Extensions held back because the work gave no sign of life. */
  readonly withheld: number;
}

/** The hold on one message while it is worked on. */
export interface Lease extends AsyncDisposable {
  /** The one that is held. */
  readonly message: Message<unknown>;
  /** True until it is lost or ended. */
  readonly kept: boolean;
  /** True when the message went back to its mailbox meanwhile. */
  readonly lost: boolean;
  /** Aborted with a {@linkcode LeaseLostError} when the lease is lost. */
  readonly signal: AbortSignal;
  /** When the work last said that it is alive, by the monotonic clock. */
  readonly lastBeat: number;
  /** Told when the lease is lost. */
  worker: { cancel(error: LeaseLostError): void } | undefined;
  /** Says that the work is alive, where extension depends on it. */
  beat(): void;
  /** Ends the extension, and waits for one that is under way: after this the message can be settled. */
  stop(): Promise<void> | undefined;
}
