import type { Delivery } from "./engine.ts";
import type { DeadLetter, DeadLetterReason, Mailbox } from "./mailbox.ts";

/** Writes the letter for a delivery: everything that is known of the message, and why it is here. */
export function deadLetterOf<T>(
  delivery: Delivery<unknown>,
  content: { readonly body: T } | { readonly raw: string },
  checkpoint: unknown,
  reason: DeadLetterReason,
  deadAt: number,
): DeadLetter<T> {
  const { id, deliveryCount, enqueuedAt, replyTo } = delivery;
  const address = typeof replyTo === "object" ? replyTo.name : replyTo;
  return {
    id,
    ...content,
    ...reason,
    deliveryCount,
    enqueuedAt,
    deadAt,
    ...(address === undefined ? {} : { replyTo: address }),
    ...(checkpoint === undefined ? {} : { checkpoint }),
  };
}

/** Options of {@linkcode redrive}. */
export interface RedriveOptions<T> {
  /** How many at the most. @default {Infinity} */
  readonly maxMessages?: number;
  /** Which ones; the others stay. */
  readonly only?: (letter: DeadLetter<T>) => boolean;
}

/**
 * Sends dead letters back to where they came from, oldest first, and returns how many. A letter leaves
 * only after its message is stored again, under its old id; one that cannot be read stays.
 */
export async function redrive<T>(
  mailbox: Mailbox<T>,
  options: RedriveOptions<T> = {},
): Promise<number> {
  const { maxMessages = Infinity, only = () => true } = options;
  const { deadLetters } = mailbox;
  if (deadLetters === undefined) {
    throw new TypeError(`Mailbox "${mailbox.name}" keeps no dead letters`);
  }
  const passedOver = [];
  let redriven = 0;
  try {
    while (redriven < maxMessages) {
      const [message] = await deadLetters.receive({ visibilityTimeoutMs: 60_000 });
      if (message === undefined) break;
      const { body: letter } = message;
      if (!("body" in letter) || !only(letter)) {
        passedOver.push(message);
        continue;
      }
      const { id, replyTo, body } = letter;
      await mailbox.send(body as T, replyTo === undefined ? { id } : { id, replyTo });
      await message.acknowledge();
      redriven++;
    }
  } finally {
    for (const message of passedOver) await message.release();
  }
  return redriven;
}
