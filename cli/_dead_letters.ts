// What the commands of `dlq` share.

import { type DeadLetter, type Mailbox, MAX_BATCH } from "../mod.ts";
import { CliError } from "./_errors.ts";

/** A mailbox with its dead letters. */
export interface WithLetters {
  readonly mailbox: Mailbox<unknown>;
  readonly letters: Mailbox<DeadLetter<unknown>>;
}

/** Refuses a mailbox whose engine keeps none. */
export function lettersOf(mailbox: Mailbox<unknown>): WithLetters {
  const { deadLetters: letters } = mailbox;
  if (letters !== undefined) return { mailbox, letters };
  throw new CliError("failed", `Mailbox "${mailbox.name}" keeps no dead letters`);
}

/** The oldest letters, without taking them. */
export async function peekLetters(
  { letters }: WithLetters,
  limit: number = MAX_BATCH,
): Promise<readonly DeadLetter<unknown>[]> {
  if (letters.peek === undefined) {
    throw new CliError(
      "failed",
      `The engine of mailbox "${letters.name}" shows no letter without handing it over: ` +
        "receive it instead",
    );
  }
  return (await letters.peek(limit)).map(({ body }) => body);
}
