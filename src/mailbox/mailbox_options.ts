import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import type { ReplyMailbox } from "./mailbox.ts";

/** Finds the mailbox that a reply goes to by its name. */
export type MailboxResolver = (
  name: string,
) => ReplyMailbox<never> | undefined | Promise<ReplyMailbox<never> | undefined>;

/** Options that every mailbox takes. */
export interface MailboxOptions {
  /** Finds mailboxes that messages name as their reply address. */
  readonly resolver?: MailboxResolver;
  /**
   * What waits and, where the engine has no clock of its own, timeouts are measured by.
   *
   * @default {systemClock}
   */
  readonly clock?: Clock;
  /** Hears of what went wrong and was mended. @default {libraryLog} */
  readonly log?: Log;
}
