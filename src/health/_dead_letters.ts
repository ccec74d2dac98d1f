import type { DeadLetter, Mailbox } from "../mailbox/mailbox.ts";
import type { WatchedMailbox } from "./health_options.ts";
import type { LetterStatus } from "./status.ts";

/** A dead letter with its error, which only requests with the token may read. */
export interface DeadLetterDetail extends LetterStatus {
  /** The error of the last attempt. */
  readonly error?: string;
  /** When its message was sent, in milliseconds since the Unix epoch. */
  readonly enqueuedAt: number;
}

/** The counts of a mailbox, and its oldest dead letters. */
export interface MailboxCounts {
  readonly messages: number;
  readonly deadLetters?: number;
  readonly letters?: readonly LetterStatus[];
}

/** The most dead letters to show. */
const MAX_DEAD_LETTERS = 20;

/** Reads the counts of a mailbox and its oldest dead letters. */
export async function readMailbox(mailbox: WatchedMailbox): Promise<MailboxCounts> {
  const { deadLetters } = mailbox as Partial<Mailbox<unknown>>;
  const [messages, dead] = await Promise.all([
    mailbox.approximateCount(),
    deadLetters?.approximateCount(),
  ]);
  if (dead === undefined) return { messages };
  const letters = dead > 0 ? await readDeadLetters(mailbox) : [];
  return { messages, deadLetters: dead, ...(letters && { letters: letters.map(withoutError) }) };
}

/** Returns the oldest dead letters with their errors; undefined where the engine cannot peek. */
export async function readDeadLetters(
  mailbox: WatchedMailbox,
): Promise<readonly DeadLetterDetail[] | undefined> {
  const { deadLetters } = mailbox as Partial<Mailbox<unknown>>;
  try {
    const peeked = await deadLetters?.peek?.(MAX_DEAD_LETTERS);
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
    return undefined; // some engines cannot peek; the counts are still valid
  }
}

function withoutError({ id, reason, deliveryCount, deadAt }: DeadLetterDetail): LetterStatus {
  return { id, reason, deliveryCount, deadAt };
}
