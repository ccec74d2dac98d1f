import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import type { ReplyMailbox } from "./mailbox.ts";

/** Where a reply is sent: a mailbox for bodies of any kind, as the receiver knows which. */
export type ReplyTarget = Pick<ReplyMailbox<never>, "send">;

/** Finds the mailbox that a reply goes to by its name. */
export type MailboxResolver = (
  name: string,
) => ReplyTarget | undefined | Promise<ReplyTarget | undefined>;

/** Options that every mailbox takes. */
export interface MailboxOptions {
  /** Finds mailboxes that messages name as their reply address. */
  readonly resolver?: MailboxResolver;
  /** @default {systemClock} */
  readonly clock?: Clock;
  /** @default {consoleLog} */
  readonly log?: Log;
}
