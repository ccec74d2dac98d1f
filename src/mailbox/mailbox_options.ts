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
  /** @default {systemClock} */
  readonly clock?: Clock;
  /** @default {libraryLog} */
  readonly log?: Log;
}
