import type { DeadLetter, Mailbox } from "../mailbox/mailbox.ts";
import type { WatchedMailbox } from "./health_options.ts";
import type { LetterStatus } from "./status.ts";

/** A dead letter with what only those may read who have the token. */
export interface OpenLetter extends LetterStatus {
  /** What the last attempt failed with. */
  readonly error?: string;
  /** When its message was sent, in milliseconds since the Unix epoch. */
  readonly enqueuedAt: number;
}

/** What a mailbox holds. */
export interface MailboxLook {
  readonly messages: number;
  readonly deadLetters?: number;
  readonly letters?: readonly LetterStatus[];
}

/** As many letters as people look at. */
const MOST_LETTERS = 20;

/** Counts what is in a mailbox and among its dead letters. */
export async function lookInto(mailbox: WatchedMailbox): Promise<MailboxLook> {
  const { deadLetters } = mailbox as Partial<Mailbox<unknown>>;
  const [messages, dead] = await Promise.all([
    mailbox.approximateCount(),
    deadLetters?.approximateCount(),
  ]);
  if (dead === undefined) return { messages };
  const letters = dead > 0 ? await openLetters(mailbox) : [];
  return { messages, deadLetters: dead, ...(letters && { letters: letters.map(withoutError) }) };
}

/** The oldest letters of a mailbox, with their errors; undefined where the engine shows none. */
export async function openLetters(
  mailbox: WatchedMailbox,
): Promise<readonly OpenLetter[] | undefined> {
  const { deadLetters } = mailbox as Partial<Mailbox<unknown>>;
  try {
    const peeked = await deadLetters?.peek?.(MOST_LETTERS);
    return peeked?.map(({ id, body, deliveryCount, enqueuedAt }) => {
      const letter: Partial<DeadLetter<unknown>> = Object(body);
      const { error } = letter;
      return {
        id: letter.id ?? id,
        reason: letter.reason ?? "unreadable",
        deliveryCount: letter.deliveryCount ?? deliveryCount,
        enqueuedAt: letter.enqueuedAt ?? enqueuedAt,
        deadAt: letter.deadAt ?? enqueuedAt,
        ...(error !== undefined && { error }),
      };
    });
  } catch {
    return undefined; // some engines show a message only to whoever takes it; the counts are still good
  }
}

function withoutError({ id, reason, deliveryCount, deadAt }: OpenLetter): LetterStatus {
  return { id, reason, deliveryCount, deadAt };
}
