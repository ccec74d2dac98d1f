import type { Clock } from "../clock.ts";
import type { LeaseExtender } from "../lease/lease_extender.ts";
import type { Work } from "../lifecycle/base_loop.ts";
import type { Heartbeat } from "../lifecycle/watchdog.ts";
import type { Log } from "../log.ts";
import type { DeadLetterPolicy } from "../mailbox/dead_letter_policy.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import type { Handler, OnBury } from "./handler.ts";
import type { StandardSchema } from "./schema.ts";

/** What a run needs of its loop. */
export interface MailboxRunConfig<T, R> {
  readonly mailbox: Mailbox<T, R>;
  readonly handler: Handler<T, R>;
  readonly concurrency: number;
  readonly prefetch: number;
  readonly extender: LeaseExtender;
  readonly policy: DeadLetterPolicy | undefined;
  readonly onBury: OnBury<T, R> | undefined;
  readonly schema: StandardSchema<T> | undefined;
  readonly minBackoffMs: number;
  readonly maxBackoffMs: number;
  readonly clock: Clock;
  readonly heartbeat: Heartbeat;
  readonly log: Log;
  /** Undefined when work may be taken; otherwise resolves when it may. */
  readonly admission: (stopping: AbortSignal) => Promise<void> | undefined;
  readonly track: (work: Work) => void;
  readonly untrack: (work: Work) => void;
}
